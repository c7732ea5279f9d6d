/** Runs tasks one after another, in the order of the calls; a failed one does not stop the next. */
export class Lane {
  #tail: Promise<unknown> = Promise.resolve();

  run<Result>(task: () => Promise<Result>): Promise<Result> {
    const result = this.#tail.then(task);
    this.#tail = result.catch(() => {}); // the caller has the error; the lane only waits
    return result;
  }
}

/** Does the work for each item, so many at the same time; `work` must not reject. */
export async function atOnce<T>(
  items: Iterable<T>,
  most: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const waiting = items[Symbol.iterator]();
  const worker = async (): Promise<void> => {
    for (let next = waiting.next(); !next.done; next = waiting.next()) await work(next.value);
  };
  await Promise.all(Array.from({ length: most }, worker));
}
