import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { TLSSocket } from 'node:tls';
import { LRUCache } from 'lru-cache';

/** Who a request is from: authentication.k8s.io/v1 UserInfo. */
export interface Identity {
  readonly username: string;
  readonly uid: string;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
  /** When its token runs out, in milliseconds since 1970; null where it doesn't. */
  readonly expires: number | null;
}

/**
 * Null where the request says nobody, or somebody it isn't; throws where that can't be found out
 * now.
 */
export type Authenticate = (request: IncomingMessage) => Promise<Identity | null>;

/** What somebody wants: authorization.k8s.io/v1 ResourceAttributes. */
export interface Access {
  readonly verb: 'get' | 'list' | 'watch' | 'update';
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly name?: string;
}

/** Throws where it can't be found out now. */
export type Authorise = (identity: Identity, access: Access) => Promise<Permission>;

export interface Permission {
  readonly allowed: boolean;
  /** '' where the API server gives none. */
  readonly reason: string;
}

/**
 * Extra of a service account token that is bound to a pod or a node (Kubernetes 1.32 and later):
 * the node.
 */
const NODE_NAME = 'authentication.kubernetes.io/node-name';

/** The node that a token is bound to; null where it is bound to none. */
export function boundNode({ extra }: Identity): string | null {
  return extra[NODE_NAME]?.[0] ?? null;
}

/** authentication.k8s.io/v1 TokenReviewSpec and TokenReviewStatus, as far as they are used. */
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
  /** Asks the API server; throws where it doesn't answer. */
  readonly review: (spec: TokenReviewSpec) => Promise<TokenReviewStatus>;
  /** The audiences accepted, any of them; none: the API server's own. */
  readonly audiences: readonly string[];
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Milliseconds that an answer holds; a minute where absent. */
  readonly keep?: number;
  /** Reviews at a time; others wait. */
  readonly atOnce?: number;
}

const MOST_TOKENS = 20_000;
/**
 * A token that is wrong may be tried again and again; one that has just been made may not be known
 * to every API server.
 */
const KEEP_REFUSED = 2000;

interface Reviewed {
  readonly identity: Identity | null;
}

/**
 * By the bearer token; each is reviewed once a minute however often it comes, and kept by its hash
 * alone.
 */
export function tokenAuthenticator({
  review,
  audiences,
  now,
  keep = 60_000,
  atOnce = 64,
}: TokenOptions): Authenticate {
  const inTurn = turns(atOnce);
  const known = new LRUCache<string, Reviewed, string>({
    max: MOST_TOKENS,
    ttl: keep,
    ttlResolution: 0,
    ignoreFetchAbort: true,
    perf: { now },
    async fetchMethod(_key, _stale, { context: token, options }) {
      const spec = { token, ...(audiences.length === 0 ? {} : { audiences: [...audiences] }) };
      const status = await inTurn(() => review(spec));
      const identity = toIdentity(status, audiences, token);
      options.ttl = identity === null ? KEEP_REFUSED : keep;
      return { identity };
    },
  });
  return async ({ headers: { authorization = '' } }) => {
    const [, token] = /^bearer +(\S+)$/i.exec(authorization) ?? [];
    if (token === undefined) return null;
    const key = createHash('sha256').update(token).digest('base64');
    const reviewed = await known.fetch(key, { context: token });
    const identity = reviewed?.identity ?? null;
    return identity?.expires != null && identity.expires <= now() ? null : identity;
  };
}

function toIdentity(
  { authenticated, user, audiences: held = [] }: TokenReviewStatus,
  wanted: readonly string[],
  token: string,
): Identity | null {
  if (authenticated !== true || user?.username === undefined || user.username === '') return null;
  // An authenticator that knows no audiences answers with none: TokenReviewStatus says to treat
  // that as refused where some were asked for.
  if (wanted.length > 0 && !held.some((audience) => wanted.includes(audience))) return null;
  const { username, uid = '', groups = [], extra = {} } = user;
  return { username, uid, groups, extra, expires: expiryOf(token) };
}

/**
 * RFC 7519's `exp` of a token that the API server has found good; null where it is no JWT or says
 * none.
 */
function expiryOf(token: string): number | null {
  const [, claims = ''] = token.split('.');
  try {
    const { exp } = JSON.parse(Buffer.from(claims, 'base64url').toString()) as { exp?: unknown };
    return typeof exp === 'number' ? exp * 1000 : null;
  } catch {
    // Other tokens (static ones, bootstrap tokens) say nothing of when they end.
    return null;
  }
}

/** Runs so many at once, the others in the order they came. */
function turns(atOnce: number): <T>(task: () => Promise<T>) => Promise<T> {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (task) => {
    if (running >= atOnce) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    try {
      return await task();
    } finally {
      const next = waiting.shift();
      if (next === undefined) running--;
      else next();
    }
  };
}

/**
 * ConfigMap kube-system/extension-apiserver-authentication: whom the API server's aggregation layer
 * is known by.
 */
export interface FrontProxy {
  /**
   * `requestheader-allowed-names`: common names of its certificate; empty is any that its CA
   * signed.
   */
  readonly allowedNames: readonly string[];
  /**
   * `requestheader-username-headers`, `-uid-headers`, `-group-headers`, `-extra-headers-prefix`.
   * Headers that these don't name are the user's own: an API server that knows none for the uid
   * passes them on as they come.
   */
  readonly usernameHeaders: readonly string[];
  readonly uidHeaders: readonly string[];
  readonly groupHeaders: readonly string[];
  readonly extraHeaderPrefixes: readonly string[];
}

/**
 * Users whom the API server's aggregation layer vouches for. Its client certificate must have been
 * verified against the front proxy's CA, which alone may be the server's client CA. `proxy` is
 * asked for at each request; null: nobody may vouch for anybody.
 */
export function frontProxyAuthenticator(proxy: () => FrontProxy | null): Authenticate {
  return async ({ socket, headersDistinct }) => {
    const { authorized, ...connection } = peerOf(socket as TLSSocket);
    const trusted = proxy();
    if (trusted === null || !authorized) return null;
    if (trusted.allowedNames.length > 0 && !trusted.allowedNames.includes(connection.name)) return null;
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

function peerOf(socket: TLSSocket): { authorized: boolean; name: string } {
  if (socket.authorized !== true) return { authorized: false, name: '' };
  const { subject } = socket.getPeerCertificate();
  const name = subject?.CN;
  return { authorized: true, name: typeof name === 'string' ? name : (name?.[0] ?? '') };
}

/** Keys come percent-encoded and in lower case. */
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
    // As the API server's own reading of these headers has it: what can't be decoded stands for
    // itself.
    return key;
  }
}

/** The first of several that knows who it is. */
export function firstOf(...all: readonly Authenticate[]): Authenticate {
  return async (request) => {
    for (const authenticate of all) {
      const identity = await authenticate(request);
      if (identity !== null) return identity;
    }
    return null;
  };
}

/** authorization.k8s.io/v1 SubjectAccessReviewSpec and its status, as far as they are used. */
export interface AccessReviewSpec {
  readonly user: string;
  readonly uid: string;
  readonly groups: string[];
  readonly extra: Record<string, string[]>;
  readonly resourceAttributes: Access;
}

export interface AccessReviewStatus {
  readonly allowed: boolean;
  readonly denied?: boolean;
  readonly reason?: string;
}

const KEEP_ACCESS = 10_000;

/** By SubjectAccessReview; an answer holds for ten seconds. */
export function accessAuthoriser(
  review: (spec: AccessReviewSpec) => Promise<AccessReviewStatus>,
  now: () => number,
): Authorise {
  const known = new LRUCache<string, Permission, AccessReviewSpec>({
    max: 10_000,
    ttl: KEEP_ACCESS,
    ttlResolution: 0,
    ignoreFetchAbort: true,
    perf: { now },
    async fetchMethod(_key, _stale, { context }) {
      const { allowed, denied = false, reason = '' } = await review(context);
      return { allowed: allowed === true && !denied, reason };
    },
  });
  return async ({ username, uid, groups, extra }, access) => {
    const copied = Object.fromEntries(Object.entries(extra).map(([key, values]) => [key, [...values]]));
    const context = { user: username, uid, groups: [...groups], extra: copied, resourceAttributes: access };
    const permission = await known.fetch(JSON.stringify(context), { context });
    return permission ?? { allowed: false, reason: '' };
  };
}
