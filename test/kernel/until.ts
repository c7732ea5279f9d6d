import { setTimeout as pause } from 'node:timers/promises';

/** Milliseconds between the first looks, and between later ones: a look may start programs. */
const FIRST_PAUSE = 10;
const LONGEST_PAUSE = 250;

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
  const limit = options.limit ?? 60_000;
  const start = performance.now();
  for (let wait = FIRST_PAUSE; ; wait = Math.min(wait * 1.5, LONGEST_PAUSE)) {
    const news = options.news?.() ?? NEVER;
    if (await condition()) return performance.now() - start;
    if (performance.now() - start > limit) {
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
