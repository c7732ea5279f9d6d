// Required by dependencies of the X.509 library.
import 'reflect-metadata';
import { createPrivateKey, randomBytes, webcrypto, X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import * as x509 from '@peculiar/x509';

/** Both are PEM; the key is PKCS #8. */
export interface CertificateAndKey {
  /** The certificate, followed by the intermediate ones up to the CA. */
  readonly certificate: string;
  readonly key: string;
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const DAY = 86_400_000;
/** Lifetimes of CAs and of servers' certificates (milliseconds). */
export const AUTHORITY_LIFE = 730 * DAY;
export const SERVING_LIFE = 90 * DAY;
/**
 * The time by which certificates are backdated (milliseconds), because the clocks of machines may
 * differ.
 */
export const BACKDATED = 3_600_000;

/** Makes a self-signed CA that may sign certificates of servers, but no other CA. */
export async function makeAuthority(now: Date): Promise<CertificateAndKey> {
  const keys = await makeKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    ...validity(now, new Date(now.getTime() + AUTHORITY_LIFE)),
    // The number distinguishes the CAs in a bundle.
    name: `CN=nodewall-ca-${Math.floor(now.getTime() / 1000)}`,
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { certificate: certificate.toString('pem'), key: await toPem(keys.privateKey) };
}

/**
 * Issues a server's certificate for all `names` (DNS names and IP addresses); the first is its
 * common name. It expires no later than its CA.
 */
export async function issueServing(
  authority: CertificateAndKey,
  names: readonly string[],
  now: Date,
): Promise<CertificateAndKey> {
  const issuer = new x509.X509Certificate(authority.certificate);
  const keys = await makeKeys();
  const end = Math.min(now.getTime() + SERVING_LIFE, issuer.notAfter.getTime());
  const certificate = await x509.X509CertificateGenerator.create({
    ...validity(now, new Date(end)),
    subject: `CN=${names[0] ?? 'nodewall'}`,
    issuer: issuer.subject,
    publicKey: keys.publicKey,
    signingKey: await fromPem(authority.key),
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension(
        names.map((name) => ({ type: isIP(name) === 0 ? 'dns' : 'ip', value: name })),
      ),
      await x509.AuthorityKeyIdentifierExtension.create(issuer.publicKey),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { certificate: certificate.toString('pem'), key: await toPem(keys.privateKey) };
}

function makeKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
}

async function toPem(key: webcrypto.CryptoKey): Promise<string> {
  return `${x509.PemConverter.encode(await webcrypto.subtle.exportKey('pkcs8', key), 'PRIVATE KEY')}\n`;
}

function fromPem(pem: string): Promise<webcrypto.CryptoKey> {
  return webcrypto.subtle.importKey('pkcs8', x509.PemConverter.decodeFirst(pem), ALGORITHM, false, ['sign']);
}

function validity(now: Date, notAfter: Date): { serialNumber: string; notBefore: Date; notAfter: Date } {
  // At most 20 bytes and positive (RFC 5280, section 4.1.2.2).
  const serialNumber = `01${randomBytes(15).toString('hex')}`;
  return { serialNumber, notBefore: new Date(now.getTime() - BACKDATED), notAfter };
}

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
