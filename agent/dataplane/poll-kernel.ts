import type { Running } from './dataplane.ts';

/** Milliseconds between two comparisons, at least. */
const LEAST_WAIT = 3_000;
/**
 * Or so many times what the last one took: an idle agent costs a hundredth of a processor at most.
 */
const SHARE = 100;
/** But no more (milliseconds), however slow the machine was for once. */
const MOST_WAIT = 60_000;

/** How long until the next comparison, after one that took so long. */
export function waitAfter(took: number): number {
  return Math.min(MOST_WAIT, Math.max(LEAST_WAIT, SHARE * took));
}

/**
 * Nobody tells of changes in iptables and ipset: they are compared again and again. Returns what
 * ends it.
 */
export function pollKernel(
  enforcer: Pick<Running['enforcer'], 'verify' | 'idle'>,
  took: () => number,
): () => Promise<void> {
  let timer: NodeJS.Timeout;
  let ended = false;
  const wait = (): void => {
    timer = setTimeout(() => void look(), waitAfter(took()));
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
