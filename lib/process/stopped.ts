import type { Log } from './log.ts';

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

/** Resolves on SIGTERM or SIGINT; with null if `ended` is aborted before. */
export function untilStopped(ended?: AbortSignal): Promise<NodeJS.Signals | null> {
  return new Promise((resolve) => {
    const keepAlive = setInterval(() => {}, 2 ** 30);
    const settle = (signal: NodeJS.Signals | null): void => {
      clearInterval(keepAlive);
      for (const one of SIGNALS) process.removeListener(one, settle);
      resolve(signal);
    };
    for (const signal of SIGNALS) process.once(signal, settle);
    ended?.addEventListener('abort', () => settle(null), { once: true });
    if (ended?.aborted) settle(null);
  });
}

/** Milliseconds: Kubernetes kills a pod 30 s after SIGTERM. */
const LONGEST_STOP = 20_000;

/**
 * Ends this process if it has not ended by itself within 20 s, and logs what kept it. Called when
 * it begins to stop.
 */
export function exitInTime(log: Log, fields: object): void {
  const exit = (): void => {
    const open = process.getActiveResourcesInfo();
    log.error(`not ended within ${LONGEST_STOP / 1000} s; exiting`, { ...fields, open });
    process.exit();
  };
  setTimeout(exit, LONGEST_STOP).unref();
}
