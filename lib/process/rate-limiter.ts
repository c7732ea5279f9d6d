import { LRUCache } from 'lru-cache';

/** A rate limiter by name (token buckets): a burst, then a number per second. */
export interface RateLimiter {
  /** Returns false if the name has exceeded its rate. */
  allows(name: string): boolean;
  /** Milliseconds until `take` returns true. */
  wait(name: string): number;
}

/** The most names that are remembered; those used longest ago begin again. */
const MOST_NAMES = 50_000;

/** @param options `now` is in milliseconds */
export function rateLimiter(options: {
  readonly now: () => number;
  readonly burst: number;
  readonly perSecond: number;
}): RateLimiter {
  const { now, burst, perSecond } = options;
  const buckets = new LRUCache<string, { readonly level: number; readonly at: number }>({ max: MOST_NAMES });
  const levelOf = (name: string, time: number): number => {
    const { level, at } = buckets.get(name) ?? { level: burst, at: time };
    return Math.min(burst, level + (perSecond * (time - at)) / 1000);
  };
  return {
    allows(name) {
      const time = now();
      const level = levelOf(name, time);
      buckets.set(name, { level: level < 1 ? level : level - 1, at: time });
      return level >= 1;
    },
    wait: (name) => Math.ceil((Math.max(0, 1 - levelOf(name, now())) * 1000) / perSecond),
  };
}
