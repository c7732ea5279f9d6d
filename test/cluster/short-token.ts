import { createPrivateKey, sign } from 'node:crypto';

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
