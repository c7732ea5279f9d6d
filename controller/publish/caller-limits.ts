import type { ServerResponse } from 'node:http';
import { type RateLimiter, rateLimiter } from '../../lib/process/fair-queue.ts';
import { boundNode, type Identity } from './auth.ts';

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
