import 'reflect-metadata';
import { randomBytes, webcrypto } from 'node:crypto';
import { isIP } from 'node:net';
import * as x509 from '@peculiar/x509';

/** A certificate with its key, both PEM. */
export interface Certificate {
  readonly certificate: string;
  readonly key: string;
}

interface CertificateRequest {
  readonly commonName: string;
  /** Kubernetes takes it for the name of a group. */
  readonly organization?: string;
  /** DNS names and addresses that it is good for. */
  readonly names?: readonly string[];
  readonly usage: 'server' | 'client';
}

export interface Authority {
  /** PEM. */
  readonly certificate: string;
  readonly key: string;
  issue(request: CertificateRequest): Promise<Certificate>;
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const VALID_MS = 86_400_000;
const USAGES = {
  server: x509.ExtendedKeyUsage.serverAuth,
  client: x509.ExtendedKeyUsage.clientAuth,
} as const;

/**
 * A certification authority that lives as long as the test. Its certificates are good for a day.
 */
export async function createAuthority(commonName: string): Promise<Authority> {
  const keys = await newKeys();
  const issuer = await x509.X509CertificateGenerator.createSelfSigned({
    ...validity(),
    name: `CN=${commonName}`,
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return {
    certificate: issuer.toString('pem'),
    key: await pem(keys.privateKey),
    async issue({ commonName, organization, names = [], usage }) {
      const { publicKey, privateKey } = await newKeys();
      const certificate = await x509.X509CertificateGenerator.create({
        ...validity(),
        subject: `${organization === undefined ? '' : `O=${organization}, `}CN=${commonName}`,
        issuer: issuer.subject,
        publicKey,
        signingKey: keys.privateKey,
        signingAlgorithm: ALGORITHM,
        extensions: [
          new x509.BasicConstraintsExtension(false),
          new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
          new x509.ExtendedKeyUsageExtension([USAGES[usage]]),
          new x509.SubjectAlternativeNameExtension(
            names.map((name) => ({ type: isIP(name) === 0 ? 'dns' : 'ip', value: name })),
          ),
          await x509.AuthorityKeyIdentifierExtension.create(keys.publicKey),
        ],
      });
      return { certificate: certificate.toString('pem'), key: await pem(privateKey) };
    },
  };
}

function newKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
}

async function pem(key: webcrypto.CryptoKey): Promise<string> {
  return x509.PemConverter.encode(await webcrypto.subtle.exportKey('pkcs8', key), 'PRIVATE KEY');
}

/** From an hour ago: clocks need not agree to the second. */
function validity(): { serialNumber: string; notBefore: Date; notAfter: Date } {
  const now = Date.now();
  return {
    serialNumber: `01${randomBytes(8).toString('hex')}`,
    notBefore: new Date(now - 3_600_000),
    notAfter: new Date(now + VALID_MS),
  };
}
