import type { Clock } from '../../lib/process/clock.ts';
import type { Attachments } from './attachment.ts';

/**
 * Milliseconds until addresses and routes are read again, and how many times as long as a reading
 * takes at least: with all routes of the Internet that is a second.
 */
const FRESH = 250;
const SHARE = 10;

interface ReadingOptions {
  readonly read: () => Promise<Attachments>;
  readonly clock: Clock;
  /** Called when a caller got an old reading and a new one may differ. */
  readonly again: () => void;
}

/** Reads how links attach the node itself, not more often than it is worth. */
export class AttachmentReading {
  readonly #options: ReadingOptions;
  #last: Attachments = new Map();
  #lastAt = Number.NEGATIVE_INFINITY;
  #fresh = FRESH;
  #cancel: (() => void) | null = null;

  constructor(options: ReadingOptions) {
    this.#options = options;
  }

  /** The last reading if it is fresh; `again` is called after it, when it no longer is. */
  async now(): Promise<Attachments> {
    const { clock, read, again } = this.#options;
    const began = clock.now();
    const age = began - this.#lastAt;
    if (age > this.#fresh) {
      this.#last = await read();
      this.#lastAt = began;
      this.#fresh = Math.max(FRESH, SHARE * (clock.now() - began));
    } else {
      // The event that led here may be newer than the reading.
      this.#cancel ??= clock.after(this.#fresh - age + 1, () => {
        this.#cancel = null;
        again();
      });
    }
    return this.#last;
  }

  /** The next caller gets a new reading. */
  forget(): void {
    this.#lastAt = Number.NEGATIVE_INFINITY;
  }

  close(): void {
    this.#cancel?.();
  }
}
