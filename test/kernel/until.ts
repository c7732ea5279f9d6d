/** Waits for something that another process brings about. */
export async function until(
  what: string,
  condition: () => Promise<boolean>,
  options: { readonly limit?: number; readonly detail?: () => string } = {},
): Promise<number> {
  const limit = options.limit ?? 60_000;
  const start = performance.now();
  for (;;) {
    if (await condition()) return performance.now() - start;
    if (performance.now() - start > limit) {
      throw new Error(`not within ${limit} ms: ${what}${options.detail ? `\n${options.detail()}` : ''}`);
    }
    await pause(20);
  }
}

export function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
