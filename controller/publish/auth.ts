import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { TLSSocket } from 'node:tls';
import { LRUCache } from 'lru-cache';
import type { NamespacedName } from '../../apis/objects.ts';
import type { FairQueue, FairQueueOptions } from '../../lib/process/fair-queue.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';

/** The user of a request: authentication.k8s.io/v1 UserInfo. */
export interface Identity {
  readonly username: string;
  readonly uid: string;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
  /** The expiry of its token (milliseconds since 1970); null: none. */
  readonly expires: number | null;
}

/**
 * Resolves with null if the request has no valid credentials; throws if they can't be checked now.
 */
export type Authenticate = (request: IncomingMessage) => Promise<Identity | null>;

/** The requested access: authorization.k8s.io/v1 ResourceAttributes. */
export interface Access {
  readonly verb: 'get' | 'list' | 'watch' | 'create' | 'update' | 'use';
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly name?: string;
  /** Absent: all, or the resource has none. */
  readonly namespace?: string;
}

/** The requested access to a path: authorization.k8s.io/v1 NonResourceAttributes. */
export interface PathAccess {
  readonly verb: 'get';
  readonly path: string;
}

/**
 * Throws if the permission can't be checked now.
 *
 * @param source whose turn it is; absent: the user's
 */
export type Authorise = (
  identity: Identity,
  access: Access | PathAccess,
  source?: string,
) => Promise<Permission>;

interface Permission {
  readonly allowed: boolean;
  /** '' if the API server gives none. */
  readonly reason: string;
}

/**
 * The node, in the `extra` of a service account token that is bound to a pod or a node (Kubernetes
 * 1.32 and later).
 */
const NODE_NAME = 'authentication.kubernetes.io/node-name';

/** The node that a token is bound to; null if it is bound to none. */
export function boundNode({ extra }: Identity): string | null {
  return extra[NODE_NAME]?.[0] ?? null;
}

/** authentication.k8s.io/v1 TokenReviewSpec and TokenReviewStatus, only the fields used here. */
export interface TokenReviewSpec {
  readonly token: string;
  /** Absent: the API server's own. */
  readonly audiences?: string[];
}

export interface TokenReviewStatus {
  readonly authenticated?: boolean;
  readonly audiences?: readonly string[];
  readonly user?: {
    readonly username?: string;
    readonly uid?: string;
    readonly groups?: readonly string[];
    readonly extra?: Readonly<Record<string, readonly string[]>>;
  };
}

export interface TokenOptions {
  /** Requests a review from the API server; throws if it doesn't answer. */
  readonly review: (spec: TokenReviewSpec) => Promise<TokenReviewStatus>;
  /** The accepted audiences, any of them; empty: the API server's own. */
  readonly audiences: readonly string[];
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** Milliseconds since 1970: tokens expire by it, cached reviews do not. */
  readonly date: () => number;
  /** The time for which a positive result is cached (milliseconds); default: a minute. */
  readonly keep?: number;
  /** Reviews take turns by the address that sent the token. */
  readonly queue: FairQueue;
}

/**
 * Reviews at once, as many as an API client has connections (kubeApi); and waiting ones, those of
 * each agent of the largest cluster.
 */
export const REVIEW_QUEUE = { atOnce: 16, most: 20_000 } as const satisfies FairQueueOptions;

const MOST_TOKENS = 20_000;
/**
 * The time for which a refusal is cached (milliseconds): a wrong token may be sent repeatedly, but
 * a new token may not be known to every API server yet.
 */
const KEEP_REFUSED = 2000;

interface Sent {
  readonly token: string;
  /** The address that sent it. */
  readonly source: string;
}

/**
 * Authenticates by bearer token. Each token is reviewed at most once a minute, and cached by its
 * hash only. A JWT that says itself that it has expired, or is for others, is not reviewed.
 */
export function tokenAuthenticator({
  review,
  audiences,
  now,
  date,
  keep = 60_000,
  queue,
}: TokenOptions): Authenticate {
  const known = new LRUCache<string, { readonly identity: Identity | null }, Sent>({
    max: MOST_TOKENS,
    ttl: keep,
    ttlResolution: 0,
    ignoreFetchAbort: true,
    perf: { now },
    async fetchMethod(_key, _stale, { context: { token, source }, options }) {
      const spec = { token, ...(audiences.length === 0 ? {} : { audiences: [...audiences] }) };
      const status = await queue.run(source, () => review(spec));
      const identity = toIdentity(status, audiences, token);
      options.ttl = identity === null ? KEEP_REFUSED : keep;
      return { identity };
    },
  });
  return async ({ headers: { authorization = '' }, socket }) => {
    const [, token] = /^bearer +(\S+)$/i.exec(authorization) ?? [];
    if (token === undefined || isRefusedByItself(token, audiences, date())) return null;
    const key = createHash('sha256').update(token).digest('base64');
    const reviewed = await known.fetch(key, { context: { token, source: socket.remoteAddress ?? '' } });
    const identity = reviewed?.identity ?? null;
    return identity?.expires != null && identity.expires <= date() ? null : identity;
  };
}

function toIdentity(
  { authenticated, user, audiences: held = [] }: TokenReviewStatus,
  wanted: readonly string[],
  token: string,
): Identity | null {
  if (authenticated !== true || user?.username === undefined || user.username === '') return null;
  // An authenticator that doesn't support audiences returns none: according to TokenReviewStatus
  // this must be treated as a refusal if audiences were requested.
  if (wanted.length > 0 && !held.some((audience) => wanted.includes(audience))) return null;
  const { username, uid = '', groups = [], extra = {} } = user;
  return { username, uid, groups, extra, expires: expiryOf(token) };
}

/**
 * Whether the claims of a token, which nobody has verified, are reason enough to refuse it: then
 * tokens that were stolen elsewhere or have expired cost no request to the API server.
 */
function isRefusedByItself(token: string, wanted: readonly string[], now: number): boolean {
  const expires = expiryOf(token);
  if (expires !== null && expires <= now) return true;
  const { aud } = claimsOf(token);
  if (aud === undefined || wanted.length === 0) return false;
  const audiences: readonly unknown[] = Array.isArray(aud) ? aud : [aud];
  return !wanted.some((audience) => audiences.includes(audience));
}

/** The `exp` of a token (milliseconds since 1970); null if it is not a JWT or has none. */
function expiryOf(token: string): number | null {
  const { exp } = claimsOf(token);
  return typeof exp === 'number' ? exp * 1000 : null;
}

/** The claims of a JWT (RFC 7519), not verified; none of other tokens (static, bootstrap). */
function claimsOf(token: string): { readonly exp?: unknown; readonly aud?: unknown } {
  const [, claims = ''] = token.split('.');
  try {
    return Object(JSON.parse(Buffer.from(claims, 'base64url').toString()));
  } catch {
    return {};
  }
}

/**
 * The API server's aggregation layer, as configured in ConfigMap
 * kube-system/extension-apiserver-authentication.
 */
export interface FrontProxy {
  /**
   * `requestheader-allowed-names`: common names of its certificate; empty: any certificate signed
   * by its CA.
   */
  readonly allowedNames: readonly string[];
  /**
   * `requestheader-username-headers`, `-uid-headers`, `-group-headers`, `-extra-headers-prefix`.
   * Headers that are not configured here come from the user: an API server without a uid header
   * passes the user's own header on.
   */
  readonly usernameHeaders: readonly string[];
  readonly uidHeaders: readonly string[];
  readonly groupHeaders: readonly string[];
  readonly extraHeaderPrefixes: readonly string[];
}

/**
 * Authenticates users on behalf of the API server's aggregation layer. Its client certificate must
 * have been verified against the front proxy's CA, which must be the server's only client CA.
 * `proxy` is called for each request; null: no client is trusted.
 */
export function frontProxyAuthenticator(proxy: () => FrontProxy | null): Authenticate {
  return async ({ socket, headersDistinct }) => {
    const trusted = proxy();
    if (trusted === null || !isFrontProxy(socket as TLSSocket, trusted)) return null;
    const first = (names: readonly string[]) =>
      names.map((name) => headersDistinct[name.toLowerCase()]?.[0]).find((value) => value !== undefined);
    const username = first(trusted.usernameHeaders);
    if (username === undefined || username === '') return null;
    const groups = trusted.groupHeaders.flatMap((name) => headersDistinct[name.toLowerCase()] ?? []);
    return {
      username,
      uid: first(trusted.uidHeaders) ?? '',
      groups,
      extra: extraOf(headersDistinct, trusted.extraHeaderPrefixes),
      expires: null,
    };
  };
}

/** Whether the connection is the aggregation layer's, by its verified certificate. */
export function isFrontProxy(socket: TLSSocket, trusted: Pick<FrontProxy, 'allowedNames'>): boolean {
  if (socket.authorized !== true) return false;
  const names = socket.getPeerCertificate().subject?.CN;
  const name = (typeof names === 'string' ? names : names?.[0]) ?? '';
  return trusted.allowedNames.length === 0 || trusted.allowedNames.includes(name);
}

/** Keys are percent-encoded and in lower case. */
function extraOf(
  headers: NodeJS.Dict<string[]>,
  prefixes: readonly string[],
): Readonly<Record<string, readonly string[]>> {
  const extra: Record<string, readonly string[]> = Object.create(null);
  for (const prefix of prefixes.map((one) => one.toLowerCase())) {
    for (const [header, values = []] of Object.entries(headers)) {
      if (!header.startsWith(prefix)) continue;
      const key = header.slice(prefix.length);
      extra[decoded(key)] = values;
    }
  }
  return extra;
}

function decoded(key: string): string {
  try {
    return decodeURIComponent(key);
  } catch {
    // A key that can't be decoded is used unchanged, as in the API server's own parser of these
    // headers.
    return key;
  }
}

/** Returns the first identity that one of several authenticators finds. */
export function firstOf(...all: readonly Authenticate[]): Authenticate {
  return async (request) => {
    for (const authenticate of all) {
      const identity = await authenticate(request);
      if (identity !== null) return identity;
    }
    return null;
  };
}

/** The identities of one ServiceAccount alone. */
export function ofAccount(authenticate: Authenticate, { namespace, name }: NamespacedName): Authenticate {
  return async (request) => {
    const identity = await authenticate(request);
    return identity?.username === `system:serviceaccount:${namespace}:${name}` ? identity : null;
  };
}

/** authorization.k8s.io/v1 SubjectAccessReviewSpec and its status, only the fields used here. */
export interface AccessReviewSpec {
  readonly user: string;
  readonly uid: string;
  readonly groups: string[];
  readonly extra: Record<string, string[]>;
  /** One of the two. */
  readonly resourceAttributes?: Access;
  readonly nonResourceAttributes?: PathAccess;
}

interface AccessReviewStatus {
  readonly allowed: boolean;
  readonly denied?: boolean;
  readonly reason?: string;
}

const KEEP_ACCESS = 10_000;

/** Short, whatever the user says. */
function keyOf(spec: AccessReviewSpec): string {
  return createHash('sha256').update(JSON.stringify(spec)).digest('base64');
}

/**
 * Authorises by SubjectAccessReview, users by turns; a result is cached for ten seconds, a refusal
 * for `keepRefused` (milliseconds).
 */
export function accessAuthoriser(
  review: (spec: AccessReviewSpec) => Promise<AccessReviewStatus>,
  now: () => number,
  queue: FairQueue,
  keepRefused = KEEP_ACCESS,
): Authorise {
  const known = new LRUCache<
    string,
    Permission,
    { readonly spec: AccessReviewSpec; readonly source: string }
  >({
    max: 10_000,
    ttl: KEEP_ACCESS,
    ttlResolution: 0,
    ignoreFetchAbort: true,
    perf: { now },
    async fetchMethod(_key, _stale, { context: { spec, source }, options }) {
      const { allowed, denied = false, reason = '' } = await queue.run(source, () => review(spec));
      const isAllowed = allowed === true && !denied;
      options.ttl = isAllowed ? KEEP_ACCESS : keepRefused;
      return { allowed: isAllowed, reason };
    },
  });
  return async ({ username, uid, groups, extra }, access, source = username) => {
    const copied = Object.fromEntries(Object.entries(extra).map(([key, values]) => [key, [...values]]));
    const user = { user: username, uid, groups: [...groups], extra: copied };
    const spec =
      'path' in access ? { ...user, nonResourceAttributes: access } : { ...user, resourceAttributes: access };
    const permission = await known.fetch(keyOf(spec), { context: { spec, source } });
    return permission ?? { allowed: false, reason: '' };
  };
}

/** Time limit (milliseconds): a client waits for the answer. */
const TIMEOUT = 5_000;

/**
 * Has the API server authenticate a token: authentication.k8s.io/v1 TokenReview. Throws KubeError.
 */
export function reviewToken(request: KubeApi, spec: TokenReviewSpec): Promise<TokenReviewStatus> {
  return review(request, 'authentication.k8s.io/v1', 'TokenReview', spec);
}

/**
 * Has the API server check a permission: authorization.k8s.io/v1 SubjectAccessReview. Throws
 * KubeError.
 */
export function reviewAccess(request: KubeApi, spec: AccessReviewSpec): Promise<AccessReviewStatus> {
  return review(request, 'authorization.k8s.io/v1', 'SubjectAccessReview', spec);
}

async function review<T>(request: KubeApi, apiVersion: string, kind: string, spec: object): Promise<T> {
  const path = `/apis/${apiVersion}/${kind.toLowerCase()}s`;
  const body = { apiVersion, kind, spec };
  return (await request<{ status: T }>({ method: 'POST', path, body, timeout: TIMEOUT })).status;
}
