/** Runs tasks one after another, in the order of the calls; a failed one does not stop the next. */
export class Lane {
  #tail: Promise<unknown> = Promise.resolve();

  run<Result>(task: () => Promise<Result>): Promise<Result> {
    const result = this.#tail.then(task);
    this.#tail = result.catch(() => {}); // the caller has the error; the lane only waits
    return result;
  }
}
