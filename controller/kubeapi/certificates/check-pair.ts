import { createPrivateKey, X509Certificate } from 'node:crypto';
import type { CertificateAndKey } from './issue.ts';

/**
 * Parses the first certificate and checks that the key belongs to it. Throws an Error that explains
 * what is wrong with which file; `where` names both.
 */
export function checkPair(
  { certificate, key }: CertificateAndKey,
  where: { readonly certificate: string; readonly key: string },
): X509Certificate {
  const parsed = parse(() => new X509Certificate(certificate), `${where.certificate}: no certificate in PEM`);
  const privateKey = parse(() => createPrivateKey(key), `${where.key}: no private key in PEM`);
  if (!parsed.checkPrivateKey(privateKey)) {
    throw new Error(`${where.key}: not the key of the certificate in ${where.certificate}`);
  }
  return parsed;
}

function parse<T>(read: () => T, message: string): T {
  try {
    return read();
  } catch (cause) {
    throw new Error(`${message}: ${(cause as Error).message}`, { cause });
  }
}
