import { hash } from 'node:crypto';
import type { Log } from './log.ts';

/** The content of the file or files: a text, or texts by name. */
type Body = string | Readonly<Record<string, string>>;

export interface SavedFile<B extends Body> {
  /** Null: there is none. */
  read(): Promise<B | null>;
  write(body: B): Promise<void>;
}

export interface SaverOptions {
  /**
   * The least time between two writes (milliseconds): the first value is written at once, a burst
   * after it in one write.
   */
  readonly interval?: number;
}

const WRITE_INTERVAL = 500;
/** Wait before a failed write is retried (milliseconds). */
const WRITE_RETRY = 10_000;
/** A write that takes longer is reported (milliseconds). */
const STUCK = 10_000;

/**
 * Keeps a file equal to the latest value. Failed reads and writes are logged; writes are retried.
 */
export class Saver<T, B extends Body = string> {
  readonly #file: SavedFile<B>;
  readonly #toBody: (value: T) => B;
  readonly #log: Log;
  readonly #interval: number;
  #waiting: T | null = null;
  #last: T | null = null;
  /** The digest of what the file has. */
  #written: string | null = null;
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> = Promise.resolve();
  #lastWrite = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor(
    file: SavedFile<B>,
    toBody: (value: T) => B,
    log: Log,
    { interval = WRITE_INTERVAL }: SaverOptions = {},
  ) {
    this.#file = file;
    this.#toBody = toBody;
    this.#log = log;
    this.#interval = interval;
  }

  save(value: T): void {
    if (this.#isClosed) return;
    // A change of resolved names doesn't change the saved state: the same object is not
    // serialized again.
    if (this.#waiting === null && value === this.#last) return;
    this.#waiting = value;
    const wait = Math.max(0, this.#lastWrite + this.#interval - performance.now());
    this.#timer ??= setTimeout(() => void this.flush(), wait);
  }

  async read<R>(parse: (body: B) => R): Promise<R | null> {
    try {
      const body = await this.#file.read();
      return body === null ? null : parse(body);
    } catch (error) {
      this.#log.error('cannot read a state file; starting without it', { error: (error as Error).message });
      return null;
    }
  }

  flush(): Promise<void> {
    if (this.#isClosed) return this.#writing;
    return this.#writeNow();
  }

  #writeNow(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  /**
   * Writes what waits. From then on nothing is saved or retried: another one may have the file, and
   * newer values.
   */
  close(): Promise<void> {
    if (this.#isClosed) return this.#writing;
    this.#isClosed = true;
    return this.#writeNow();
  }

  async #write(): Promise<void> {
    if (this.#waiting === null) return;
    const value = this.#waiting;
    this.#waiting = null;
    this.#last = null;
    this.#lastWrite = performance.now();
    const slow = setTimeout(() => this.#sayStuck(), STUCK).unref();
    try {
      const body = this.#toBody(value);
      const digest = hash('sha256', typeof body === 'string' ? body : Object.entries(body).flat().join('\0'));
      if (digest !== this.#written) await this.#file.write(body);
      this.#written = digest;
      this.#last = value;
    } catch (error) {
      const then = this.#isClosed ? '' : ', trying again';
      this.#log.error(`cannot write a state file; enforcement continues${then}`, {
        error: (error as Error).message,
      });
      this.#waiting ??= value;
      if (this.#isClosed) return;
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
