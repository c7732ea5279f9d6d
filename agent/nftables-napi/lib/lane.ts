import { closedError } from './errors.ts';

/**
 * Runs tasks one after another in the order of the calls; a failed task does not stop the next
 * ones. After close(), further tasks are refused with code CLOSED.
 */
export class ClosableLane {
  readonly #owner: string;
  #tail: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | null = null;

  /** `owner` names the object in the message of the CLOSED error. */
  constructor(owner: string) {
    this.#owner = owner;
  }

  /**
   * Runs the task when the earlier ones have settled. Never throws synchronously. `toError`
   * converts what the task throws.
   */
  run<Result>(
    task: () => Promise<Result>,
    toError: (thrown: unknown) => unknown = (thrown) => thrown,
  ): Promise<Result> {
    if (this.#closing) return Promise.reject(closedError(this.#owner));
    const result = this.#tail.then(task).catch((thrown: unknown) => Promise.reject(toError(thrown)));
    this.#tail = result.catch(() => {}); // the caller has the error; the lane only waits
    return result;
  }

  /** Waits for all tasks, then runs `release`, only once however often close() is called. */
  close(release: () => Promise<void>): Promise<void> {
    this.#closing ??= this.#tail.then(release);
    return this.#closing;
  }
}
