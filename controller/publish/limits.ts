import type { ServerResponse } from 'node:http';
import type { ServerOptions } from 'node:https';
import { type RateLimiter, rateLimiter } from '../../lib/process/fair-queue.ts';
import { boundNode, type Identity } from './auth.ts';

/** All texts are PEM. */
export interface ServerTls {
  readonly key: string;
  readonly cert: string;
  /**
   * The front proxy's CA, the only one that client certificates are verified against; absent: no
   * client certificate is trusted.
   */
  readonly clientCa?: string;
}

export interface ServerLimits {
  /**
   * The most connections without an authenticated request, beside one for each Node; and of one
   * source address.
   */
  readonly connections: number;
  readonly connectionsOfSource: number;
  /** Bytes: of a request's head, and of the front proxy's. */
  readonly head: number;
  readonly frontProxyHead: number;
  /**
   * Milliseconds: for a TLS handshake, a request's head, the whole request; for the client to take
   * a response that is not a stream; and between the requests of one connection.
   */
  readonly handshake: number;
  readonly headTime: number;
  readonly requestTime: number;
  readonly responseTime: number;
  readonly idle: number;
  /** Milliseconds for handshake and head while half of the connections are in use. */
  readonly patience: number;
  /**
   * Milliseconds for which a watch waits whose watcher has a newer state of the cluster from
   * another controller.
   */
  readonly catchUp: number;
  /** Milliseconds that requests in progress may still take when the server closes. */
  readonly grace: number;
}

export const SERVER_LIMITS: ServerLimits = {
  connections: 1000,
  connectionsOfSource: 1000,
  head: 8 << 10,
  // A user's groups are headers.
  frontProxyHead: 32 << 10,
  // When all agents connect at the same time, thousands of handshakes wait for each other; a client
  // that is rejected then reconnects, and increases the load.
  handshake: 60_000,
  headTime: 30_000,
  requestTime: 30_000,
  responseTime: 60_000,
  idle: 60_000,
  patience: 10_000,
  catchUp: 5000,
  grace: 2000,
};

/**
 * Thousands of agents may reconnect at the same time; the kernel limits this to net.core.somaxconn.
 */
export const BACKLOG = 4096;

/** User name of the agents' service account. */
export const AGENT_USER = 'system:serviceaccount:nodewall-system:nodewall-agent';

export function serverOptions(tls: ServerTls, limits: ServerLimits): ServerOptions {
  return {
    ...secureContext(tls),
    requestCert: true,
    // Agents have no certificate: `authenticate` identifies the client.
    rejectUnauthorized: false,
    handshakeTimeout: limits.handshake,
    maxHeaderSize: limits.head,
    headersTimeout: limits.headTime,
    requestTimeout: limits.requestTime,
    connectionsCheckingInterval: 2000,
    keepAliveTimeout: limits.idle,
    keepAlive: true,
    keepAliveInitialDelay: 15_000,
    noDelay: true,
  };
}

export function secureContext({ key, cert, clientCa }: ServerTls) {
  // An explicit empty list, because by default Node trusts the public CAs.
  return { key, cert, ca: clientCa === undefined ? [] : [clientCa], minVersion: 'TLSv1.2' as const };
}

/** A caller's limit: a burst, then a number a second, and so many at the same time. */
interface Limit {
  readonly burst: number;
  readonly perSecond: number;
  readonly atOnce: number;
}

/**
 * An agent opens one watch, and sends one report and one heartbeat at a time; kubectl repeats what
 * is refused. While a node waits for an address, it asks each 25 ms (ASK_FOR_GRANT), in the first
 * 250 ms each 10.
 */
const LIMITS = {
  watch: { burst: 10, perSecond: 1, atOnce: Number.POSITIVE_INFINITY },
  read: { burst: 50, perSecond: 5, atOnce: 2 },
  report: { burst: 10, perSecond: 1, atOnce: 2 },
  lease: { burst: 60, perSecond: 20, atOnce: 2 },
  // A round a second while a probe fails; of answers, one for each node that asks this one.
  probes: { burst: 10, perSecond: 2, atOnce: 2 },
  probeanswer: { burst: 32, perSecond: 16, atOnce: 16 },
  // An answer for each replica, scrape and user; of scrapers and users, one request for each Node.
  answer: { burst: 32, perSecond: 8, atOnce: 4 },
  scrape: { burst: 1_000, perSecond: 500, atOnce: 64 },
  // A browser loads the console's files at once, for each page that is opened.
  files: { burst: 200, perSecond: 20, atOnce: 16 },
  // A page that is opened asks for several.
  overview: { burst: 60, perSecond: 5, atOnce: 8 },
  // One a page.
  overviewWatch: { burst: 20, perSecond: 1, atOnce: 20 },
  // Each asks up to 64 nodes, or looks at all rules.
  survey: { burst: 10, perSecond: 0.5, atOnce: 2 },
  preview: { burst: 20, perSecond: 1, atOnce: 2 },
} as const satisfies Record<string, Limit>;

export type Work = keyof typeof LIMITS;

/** Limits what each caller asks for; a caller is a user, of agents the user on one node. */
export class CallerLimits {
  readonly #rates: Readonly<Record<Work, RateLimiter>>;
  /** The number in progress, by work and caller. */
  readonly #inProgress = new Map<string, number>();

  /** @param now is in milliseconds */
  constructor(now: () => number) {
    const limiterOf = ({ burst, perSecond }: Limit): RateLimiter => rateLimiter({ now, burst, perSecond });
    this.#rates = Object.fromEntries(
      Object.entries(LIMITS).map(([work, limit]) => [work, limiterOf(limit)]),
    ) as Record<Work, RateLimiter>;
  }

  /** The reason to refuse it; null: it counts, until its response is closed. */
  refusal(work: Work, identity: Identity, response: ServerResponse): string | null {
    const caller = callerOf(identity);
    const key = `${work} ${caller}`;
    const { perSecond, atOnce } = LIMITS[work];
    const busy = this.#inProgress.get(key) ?? 0;
    if (busy >= atOnce) return `more than ${atOnce} requests of this kind at the same time; retry later`;
    if (!this.#rates[work].allows(caller))
      return `more than ${perSecond} requests of this kind a second; retry later`;
    if (response.destroyed) return null;
    this.#inProgress.set(key, busy + 1);
    response.once('close', () => {
      const left = (this.#inProgress.get(key) ?? 1) - 1;
      if (left === 0) this.#inProgress.delete(key);
      else this.#inProgress.set(key, left);
    });
    return null;
  }
}

/** Names a caller in limits: agents have one user name, and each its node. */
export function callerOf(identity: Identity): string {
  return `${identity.username} ${boundNode(identity) ?? ''}`;
}
