import type { NativeMonitor } from './binding.ts';
import { closedError, type DescribeOperation, type ErrnoTable, toNftError } from './errors.ts';

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

/** Wraps a listener so that it is not called after close(), when an event may still be pending. */
type WhileOpen = <Told>(listener: (told: Told) => void) => (told: Told) => void;

/**
 * A listener on a thread of its own, until it is closed. If `open` throws an error of the addon,
 * the constructor throws it as an NftError.
 */
export class Listening {
  readonly #native: NativeMonitor;
  #closing: Promise<void> | null = null;

  constructor(
    open: (whileOpen: WhileOpen) => NativeMonitor,
    errnos: ErrnoTable,
    describe?: DescribeOperation,
  ) {
    try {
      this.#native = open((listener) => (told) => {
        if (!this.#closing) listener(told);
      });
    } catch (error) {
      throw toNftError(error, errnos, describe);
    }
  }

  /** Lets the process exit while it listens. */
  unref(): this {
    this.#native.unref();
    return this;
  }

  /** Undoes unref(). */
  ref(): this {
    this.#native.ref();
    return this;
  }

  /** Ends the thread and closes the socket; the listener is not called any more. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#native.close();
    return this.#closing;
  }
}

/**
 * A socket of the addon whose calls do not wait: they and the constructor throw an NftError for
 * errors of the kernel, with code CLOSED after close().
 */
export class NativeHandle<Native extends { close(): unknown }> {
  readonly #owner: string;
  readonly #errnos: ErrnoTable;
  #native: Native | null;

  /** `owner` names the object in the message of the CLOSED error. */
  constructor(owner: string, errnos: ErrnoTable, open: () => Native) {
    this.#owner = owner;
    this.#errnos = errnos;
    this.#native = this.#attempt(open);
  }

  call<Result>(use: (native: Native) => Result): Result {
    return this.#attempt(() => {
      if (this.#native === null) throw closedError(this.#owner);
      return use(this.#native);
    });
  }

  /** Idempotent. */
  close(): ReturnType<Native['close']> | undefined {
    const native = this.#native;
    this.#native = null;
    return native?.close() as ReturnType<Native['close']> | undefined;
  }

  #attempt<Result>(task: () => Result): Result {
    try {
      return task();
    } catch (error) {
      throw toNftError(error, this.#errnos);
    }
  }
}
