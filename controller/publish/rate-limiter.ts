import { LRUCache } from 'lru-cache';

/** A rate limiter by name (token buckets): a burst, then a number per second. */
export interface RateLimiter {
  /** Returns false if the name has exceeded its rate. */
  take(name: string): boolean;
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
  const buckets = new LRUCache<string, { level: number; at: number }>({ max: MOST_NAMES });
  return {
    take(name) {
      const time = now();
      const bucket = buckets.get(name) ?? { level: burst, at: time };
      bucket.level = Math.min(burst, bucket.level + (perSecond * (time - bucket.at)) / 1000);
      bucket.at = time;
      buckets.set(name, bucket);
      if (bucket.level < 1) return false;
      bucket.level--;
      return true;
    },
  };
}
