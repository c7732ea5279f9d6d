import type { NativeMonitor } from './binding.ts';

/** Wraps a listener so that it is not called after close(), when an event may still be pending. */
export type WhileOpen = <Told>(listener: (told: Told) => void) => (told: Told) => void;

/**
 * A listener on a thread of its own, until it is closed. If `open` throws, the constructor throws
 * the error converted by `toError`.
 */
export class Listening {
  readonly #native: NativeMonitor;
  #closing: Promise<void> | null = null;

  constructor(open: (whileOpen: WhileOpen) => NativeMonitor, toError: (error: unknown) => unknown) {
    try {
      this.#native = open((listener) => (told) => {
        if (!this.#closing) listener(told);
      });
    } catch (error) {
      throw toError(error);
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
