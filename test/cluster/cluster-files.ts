import { createPrivateKey, generateKeyPairSync, sign } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { createAuthority } from './certificates.ts';

interface ClusterFiles {
  readonly ca: string;
  readonly caFile: string;
  /** PEM. */
  readonly serviceAccountKey: string;
  /** kube-apiserver flags that name them. */
  readonly flags: readonly string[];
}

/**
 * Certificates, keys and tokens of a cluster: everything that its API server knows before it
 * starts.
 */
export async function writeClusterFiles(
  folder: string,
  adminToken: string,
  address: string | undefined,
): Promise<ClusterFiles> {
  const certificates = join(folder, 'certificates');
  await mkdir(certificates);
  const write = async (name: string, text: string): Promise<string> => {
    const path = join(certificates, name);
    await writeFile(path, text, { mode: 0o600 });
    return path;
  };
  const [authority, frontProxy] = await Promise.all([
    createAuthority('nodewall-test'),
    createAuthority('nodewall-test-front-proxy'),
  ]);
  const names = ['127.0.0.1', '::1', 'localhost', 'kubernetes.default.svc', ...(address ? [address] : [])];
  const serving = await authority.issue({ commonName: 'kube-apiserver', names, usage: 'server' });
  const client = await frontProxy.issue({ commonName: 'front-proxy-client', usage: 'client' });
  const { privateKey, publicKey } = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    privateKeyEncoding: { type: 'sec1', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
  const caFile = await write('ca.crt', authority.certificate);
  const files = {
    'tls-cert-file': await write('serving.crt', serving.certificate),
    'tls-private-key-file': await write('serving.key', serving.key),
    'token-auth-file': await write('tokens.csv', `${adminToken},admin,admin,"system:masters"\n`),
    'service-account-key-file': await write('service-account.pub', publicKey),
    'service-account-signing-key-file': await write('service-account.key', privateKey),
    'requestheader-client-ca-file': await write('front-proxy-ca.crt', frontProxy.certificate),
    'proxy-client-cert-file': await write('front-proxy-client.crt', client.certificate),
    'proxy-client-key-file': await write('front-proxy-client.key', client.key),
  };
  const settings = {
    ...files,
    'cert-dir': certificates,
    'authorization-mode': 'RBAC',
    'allow-privileged': 'true',
    'service-account-issuer': 'https://kubernetes.default.svc',
    'requestheader-allowed-names': 'front-proxy-client',
    'requestheader-username-headers': 'X-Remote-User',
    'requestheader-group-headers': 'X-Remote-Group',
    'requestheader-extra-headers-prefix': 'X-Remote-Extra-',
    // There are no endpoints of 127.0.0.1, and no controller that makes each namespace its default
    // service account.
    'endpoint-reconciler-type': 'none',
    'disable-admission-plugins': 'ServiceAccount',
    'shutdown-delay-duration': '0s',
  };
  const flags = Object.entries(settings).map(([name, value]) => `--${name}=${value}`);
  return { ca: authority.certificate, caFile, serviceAccountKey: privateKey, flags };
}

interface KubeconfigParts {
  /** URL. */
  readonly server: string;
  /** PEM. */
  readonly ca: string;
  readonly token: string;
}

/** The text of a kubeconfig with one context, for who holds the token. */
export function kubeconfig({ server, ca, token }: KubeconfigParts): string {
  const name = 'test';
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster: { server, 'certificate-authority-data': btoa(ca) } }],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    'current-context': name,
  });
}

/**
 * A service account token (RFC 7519, ES256) with another time of expiry, in seconds from now,
 * signed anew with the cluster's key (PEM). The TokenRequest API gives none that lasts less than
 * ten minutes.
 */
export function withExpiry(token: string, seconds: number, key: string): string {
  const [header = '', payload = ''] = token.split('.');
  const claims: { exp: number; iat: number } = JSON.parse(Buffer.from(payload, 'base64url').toString());
  claims.exp = Math.floor(Date.now() / 1000) + seconds;
  const signed = `${header}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}`;
  const signature = sign('sha256', Buffer.from(signed), {
    key: createPrivateKey(key),
    dsaEncoding: 'ieee-p1363',
  });
  return `${signed}.${signature.toString('base64url')}`;
}
