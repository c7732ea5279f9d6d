/** A rate limiter by name (token buckets): a burst, then a number per second. */
export interface RateLimiter {
  /** Returns false if the name has exceeded its rate. */
  take(name: string): boolean;
  forget(name: string): void;
}

/** @param options `now` is in milliseconds */
export function rateLimiter(options: {
  readonly now: () => number;
  readonly burst: number;
  readonly perSecond: number;
}): RateLimiter {
  const { now, burst, perSecond } = options;
  const buckets = new Map<string, { level: number; at: number }>();
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
    forget: (name) => void buckets.delete(name),
  };
}
