/** Settles on SIGTERM or SIGINT. */
export function untilStopped(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    const keepAlive = setInterval(() => {}, 2 ** 30);
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.once(signal, () => {
        clearInterval(keepAlive);
        resolve(signal);
      });
    }
  });
}
