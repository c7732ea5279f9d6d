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
