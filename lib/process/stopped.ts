import type { Log } from './log.ts';

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

/**
 * Resolves on SIGTERM or SIGINT; with null if `ended` is aborted before. A signal that arrives just
 * then is for the next wait, or ends the process if there is none, as it does where nobody waits.
 */
export function untilStopped(ended?: AbortSignal): Promise<NodeJS.Signals | null> {
  return new Promise((resolve) => {
    const keepAlive = setInterval(() => {}, 2 ** 30);
    let isOver = false;
    const remove = (): void => {
      for (const one of SIGNALS) process.removeListener(one, take);
    };
    const take = (signal: NodeJS.Signals): void => {
      remove();
      clearInterval(keepAlive);
      if (!isOver) resolve(signal);
      // Whoever waits by now has received it, too.
      else if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
    };
    const end = (): void => {
      if (isOver) return;
      isOver = true;
      clearInterval(keepAlive);
      resolve(null);
      // One that has arrived already is told within a turn of the event loop, and without a
      // listener would be lost: Node.js has taken it from the kernel.
      setImmediate(() => setImmediate(remove));
    };
    for (const signal of SIGNALS) process.on(signal, take);
    ended?.addEventListener('abort', end, { once: true });
    if (ended?.aborted) end();
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
