import type { KubeApi } from '../kube-api.ts';
import { isKubeError, orNull } from '../kube-error.ts';
import { type Authority, advanceAuthority } from './authority.ts';
import { checkPair, makeAuthority } from './issue.ts';

/** The fields of a Secret that are used here; values are base64. */
interface Secret {
  readonly metadata: { readonly resourceVersion: string };
  readonly data?: Readonly<Record<string, string>>;
}

/**
 * The most attempts: two replicas may write at the same time, and each time one of them succeeds.
 */
const MOST_TRIES = 5;

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
  for (let tries = 1; ; tries++) {
    try {
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
    } catch (error) {
      if (tries === MOST_TRIES || !isKubeError(error, 'AlreadyExists', 'Conflict')) throw error;
    }
  }
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
