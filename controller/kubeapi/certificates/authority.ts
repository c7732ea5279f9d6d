import { X509Certificate } from 'node:crypto';
import type { KubeApi } from '../kube-api.ts';
import { isKubeError, orNull } from '../kube-error.ts';
import { AUTHORITY_LIFE, BACKDATED, type CertificateAndKey, checkPair, makeAuthority } from './issue.ts';

/** A CA and its rotation. */
export interface Authority {
  /** The CA that signs. */
  readonly current: CertificateAndKey;
  /** The next CA: trusted already, and signs once all clients have it. */
  readonly next: CertificateAndKey | null;
  /** Former CA certificates, trusted until they expire. */
  readonly previous: readonly string[];
}

/** The time for which the next CA is published before it signs (milliseconds). */
export const OVERLAP = 7 * 86_400_000;

/**
 * Advances the CA to its state at `now`; returns the same object if nothing changes. `make` makes a
 * new CA.
 */
export async function advanceAuthority(
  authority: Authority | null,
  now: Date,
  make: (now: Date) => Promise<CertificateAndKey>,
): Promise<Authority> {
  // A start in the future means that it was made by a clock that was ahead: clients with a correct
  // clock would reject it until then.
  if (authority === null || startOf(authority.current.certificate) > now.getTime())
    return { current: await make(now), next: null, previous: [] };
  const previous = authority.previous.filter((certificate) => endOf(certificate) > now.getTime());
  let { current, next } = authority;
  if (next !== null && startOf(next.certificate) > now.getTime()) next = null;
  if (next === null && now.getTime() >= endOf(current.certificate) - AUTHORITY_LIFE / 3)
    next = await make(now);
  const isNextKnown = next !== null && now.getTime() >= startOf(next.certificate) + BACKDATED + OVERLAP;
  const isOver = endOf(current.certificate) <= now.getTime();
  if (next !== null && (isNextKnown || isOver)) {
    if (!isOver) previous.push(current.certificate);
    [current, next] = [next, null];
  }
  const isSame =
    current === authority.current && next === authority.next && previous.length === authority.previous.length;
  return isSame ? authority : { current, next, previous };
}

/** All CA certificates that clients must trust, oldest first, PEM. */
export function trustedCertificates({ current, next, previous }: Authority): string {
  const certificates = [...previous, current.certificate, ...(next === null ? [] : [next.certificate])];
  return certificates.map((certificate) => `${certificate.trim()}\n`).join('');
}

function startOf(certificate: string): number {
  return new X509Certificate(certificate).validFromDate.getTime();
}

function endOf(certificate: string): number {
  return new X509Certificate(certificate).validToDate.getTime();
}

/** The fields of a Secret that are used here; values are base64. */
interface Secret {
  readonly metadata: { readonly resourceVersion: string };
  readonly data?: Readonly<Record<string, string>>;
}

/**
 * The CA in the Secret, made or advanced when it is due. The first replica makes it; the others use
 * it. Throws if the Secret holds something else, which must not be overwritten unnoticed.
 */
export async function authorityInSecret(
  request: KubeApi,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  now: Date,
): Promise<Authority> {
  const collection = `/api/v1/namespaces/${namespace}/secrets`;
  const path = `${collection}/${name}`;
  return untilWritten(async () => {
    const secret = await orNull(request<Secret>({ method: 'GET', path }));
    const held = secret === null ? null : fromSecret(secret, `Secret ${namespace}/${name}`);
    const authority = await advanceAuthority(held, now, makeAuthority);
    if (authority === held) return authority;
    const body = {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: {
        name,
        namespace,
        ...(secret === null ? {} : { resourceVersion: secret.metadata.resourceVersion }),
      },
      data: toData(authority),
    };
    if (secret === null) await request({ method: 'POST', path: collection, body });
    else await request({ method: 'PUT', path, body });
    return authority;
  });
}

function fromSecret({ data = {} }: Secret, what: string): Authority {
  const text = (key: string): string => Buffer.from(data[key] ?? '', 'base64').toString();
  try {
    const pair = (certificate: string, key: string) => {
      const both = { certificate: text(certificate), key: text(key) };
      const { ca } = checkPair(both, { certificate, key });
      if (!ca) throw new Error(`${certificate}: not a CA certificate`);
      return both;
    };
    const next = data['next.crt'] === undefined ? null : pair('next.crt', 'next.key');
    const previous = text('previous.crt').match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g);
    return { current: pair('tls.crt', 'tls.key'), next, previous: previous ?? [] };
  } catch (cause) {
    const message = `${what} does not hold a CA of nodewall (${(cause as Error).message}); delete it, and the controller makes a new one`;
    throw new Error(message, { cause });
  }
}

function toData({ current, next, previous }: Authority): Record<string, string> {
  const texts = {
    'tls.crt': current.certificate,
    'tls.key': current.key,
    ...(next === null ? {} : { 'next.crt': next.certificate, 'next.key': next.key }),
    ...(previous.length === 0 ? {} : { 'previous.crt': previous.join('\n') }),
  };
  return Object.fromEntries(
    Object.entries(texts).map(([key, value]) => [key, Buffer.from(value).toString('base64')]),
  );
}

/** An object that holds CA certificates, only the fields used here. */
type Holder = Readonly<Record<string, unknown>>;

/**
 * Writes CA certificates (PEM) to key `ca.crt` of the ConfigMap, which is created if it doesn't
 * exist. Throws KubeError.
 */
export async function publishBundle(
  request: KubeApi,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  certificates: string,
): Promise<void> {
  const collection = `/api/v1/namespaces/${namespace}/configmaps`;
  const data = { 'ca.crt': certificates };
  await untilWritten(async () => {
    const held = await orNull(request<Holder>({ method: 'GET', path: `${collection}/${name}` }));
    if (held === null) {
      const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace }, data };
      await request({ method: 'POST', path: collection, body });
    } else if ((held as { data?: Record<string, string> }).data?.['ca.crt'] !== certificates) {
      await request({ method: 'PATCH', path: `${collection}/${name}`, body: { data } });
    }
  });
}

/**
 * The most attempts: two replicas may write at the same time, and each time one of them succeeds.
 */
const MOST_TRIES = 5;

async function untilWritten<T>(write: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await write();
    } catch (error) {
      if (tries === MOST_TRIES || !isKubeError(error, 'AlreadyExists', 'Conflict')) throw error;
    }
  }
}
