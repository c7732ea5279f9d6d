import { setTimeout as pause } from 'node:timers/promises';
import { PATIENCE } from '../netns/patience.ts';

/** Milliseconds between the first looks, and between later ones: a look may start programs. */
const FIRST_PAUSE = 10;
const LONGEST_PAUSE = 250;
/** Where news tell when to look: for what they do not tell. */
const PAUSE_WITH_NEWS = 500;
/** Where more than that has been waited, of the wait so far. */
const SHARE = 1 / 20;

/**
 * Waits for something that another process brings about. `news` resolves when that process has
 * said something: then the next look comes at once.
 */
export async function until(
  what: string,
  condition: () => Promise<boolean>,
  options: {
    readonly limit?: number;
    readonly detail?: () => string;
    readonly news?: () => Promise<void>;
  } = {},
): Promise<number> {
  const limit = (options.limit ?? 60_000) * PATIENCE;
  const start = performance.now();
  const longest = options.news ? PAUSE_WITH_NEWS : LONGEST_PAUSE;
  for (let wait = options.news ? longest : FIRST_PAUSE; ; ) {
    const news = options.news?.() ?? NEVER;
    if (await condition()) return performance.now() - start;
    const waited = performance.now() - start;
    wait = Math.min(wait * 1.5, Math.max(longest, waited * SHARE));
    if (waited > limit) {
      throw new Error(`not within ${limit} ms: ${what}${options.detail ? `\n${options.detail()}` : ''}`);
    }
    await Promise.race([news, pause(wait)]);
  }
}

const NEVER = new Promise<void>(() => {});

/** Whether it resolves: a condition for `until` of something that may be refused at first. */
export function succeeds(attempt: Promise<unknown>): Promise<boolean> {
  return attempt.then(
    () => true,
    () => false,
  );
}

export { pause };
