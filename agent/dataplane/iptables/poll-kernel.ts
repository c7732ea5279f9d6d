import type { Running } from '../dataplane.ts';

/** The least time between two comparisons, in milliseconds. */
const LEAST_WAIT = 3_000;
/**
 * Or this multiple of the duration of the last comparison, so that an idle agent uses at most a
 * hundredth of a processor.
 */
const SHARE = 100;
/** The most time between two comparisons, in milliseconds, however slow the machine was once. */
const MOST_WAIT = 60_000;

/** Milliseconds until the next comparison, after one that took `took` milliseconds. */
export function pollInterval(took: number): number {
  return Math.min(MOST_WAIT, Math.max(LEAST_WAIT, SHARE * took));
}

/**
 * Compares repeatedly, because there are no events for changes of iptables and ipset. Returns a
 * function that stops it.
 */
export function pollKernel(
  enforcer: Pick<Running['enforcer'], 'verify' | 'idle'>,
  took: () => number,
): () => Promise<void> {
  let timer: NodeJS.Timeout;
  let ended = false;
  const wait = (): void => {
    timer = setTimeout(() => void look(), pollInterval(took()));
  };
  async function look(): Promise<void> {
    enforcer.verify();
    await enforcer.idle();
    if (!ended) wait();
  }
  wait();
  return async () => {
    ended = true;
    clearTimeout(timer);
  };
}
