import type { Log } from './log.ts';
import type { StateFile } from './state-file.ts';

/**
 * The least time between two writes (milliseconds): the first value is written at once, a burst
 * after it in one write.
 */
const WRITE_INTERVAL = 500;
/** Wait before a failed write is retried (milliseconds). */
const WRITE_RETRY = 10_000;
/** A write that takes longer is reported (milliseconds). */
const STUCK = 10_000;

/**
 * Keeps a file equal to the latest value. Failed reads and writes are logged; writes are retried.
 */
export class Saver<T> {
  readonly #file: StateFile;
  readonly #toText: (value: T) => string;
  readonly #log: Log;
  #waiting: T | null = null;
  #last: T | null = null;
  #written: string | null = null;
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> = Promise.resolve();
  #lastWrite = Number.NEGATIVE_INFINITY;

  constructor(file: StateFile, toText: (value: T) => string, log: Log) {
    this.#file = file;
    this.#toText = toText;
    this.#log = log;
  }

  save(value: T): void {
    // A change of resolved names doesn't change the saved state: the same object is not
    // serialized again.
    if (this.#waiting === null && value === this.#last) return;
    this.#waiting = value;
    const wait = Math.max(0, this.#lastWrite + WRITE_INTERVAL - performance.now());
    this.#timer ??= setTimeout(() => void this.flush(), wait);
  }

  async read<R>(parse: (text: string) => R): Promise<R | null> {
    try {
      const text = await this.#file.read();
      return text === null ? null : parse(text);
    } catch (error) {
      this.#log.error('cannot read a state file; starting without it', { error: (error as Error).message });
      return null;
    }
  }

  flush(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  async #write(): Promise<void> {
    if (this.#waiting === null) return;
    const value = this.#waiting;
    this.#waiting = null;
    this.#last = null;
    this.#lastWrite = performance.now();
    const slow = setTimeout(() => this.#sayStuck(), STUCK).unref();
    try {
      const text = this.#toText(value);
      if (text !== this.#written) await this.#file.write(text);
      this.#written = text;
      this.#last = value;
    } catch (error) {
      this.#log.error('cannot write a state file; enforcement continues, trying again', {
        error: (error as Error).message,
      });
      this.#waiting ??= value;
      this.#timer ??= setTimeout(() => void this.flush(), WRITE_RETRY).unref();
    } finally {
      clearTimeout(slow);
    }
  }

  #sayStuck(): void {
    this.#log.error('the disk does not answer: a state file has not been written; enforcement continues', {
      seconds: STUCK / 1000,
    });
  }
}
