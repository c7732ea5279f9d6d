/** What a trial's process is given, and how it answers: one JSON value each way. */
export function trialInput<T>(): T {
  return JSON.parse(process.argv[2] ?? 'null') as T;
}

export function answer(figures: Readonly<Record<string, number>>): void {
  process.stdout.write(`${JSON.stringify(figures)}\n`);
}

interface Timed<T> {
  readonly result: T;
  readonly milliseconds: number;
  /**
   * Processor time of all threads of the process, milliseconds: tells what is slow from what had to
   * wait.
   */
  readonly cpu: number;
}

export async function timed<T>(work: () => T | Promise<T>): Promise<Timed<T>> {
  const before = process.cpuUsage();
  const start = performance.now();
  const result = await work();
  const milliseconds = performance.now() - start;
  const { user, system } = process.cpuUsage(before);
  return { result, milliseconds, cpu: (user + system) / 1000 };
}
