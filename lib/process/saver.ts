import type { Log } from './log.ts';
import type { StateFile } from './state-file.ts';

/**
 * The least time between two writes (milliseconds): the first value is written at once, a burst
 * after it in one write.
 */
const WRITE_INTERVAL = 500;
/** Wait before a failed write is retried (milliseconds). */
const WRITE_RETRY = 10_000;

/** Keeps a file equal to the latest value. */
export interface Saver<T> {
  save(value: T): void;
  read<R>(parse: (text: string) => R): Promise<R | null>;
  flush(): Promise<void>;
}

/** Failed reads and writes are logged; writes are retried. */
export function saver<T>(file: StateFile, toText: (value: T) => string, log: Log): Saver<T> {
  let waiting: T | null = null;
  let last: T | null = null;
  let written: string | null = null;
  let timer: NodeJS.Timeout | null = null;
  let writing: Promise<void> = Promise.resolve();
  let lastWrite = Number.NEGATIVE_INFINITY;

  async function write(): Promise<void> {
    if (waiting === null) return;
    const value = waiting;
    waiting = null;
    last = null;
    lastWrite = performance.now();
    try {
      const text = toText(value);
      if (text !== written) await file.write(text);
      written = text;
      last = value;
    } catch (error) {
      log.error('cannot write a state file; enforcement continues, trying again', {
        error: (error as Error).message,
      });
      waiting ??= value;
      timer ??= setTimeout(() => void flush(), WRITE_RETRY).unref();
    }
  }
  function flush(): Promise<void> {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    writing = writing.then(write);
    return writing;
  }
  return {
    save(value) {
      // A change of resolved names doesn't change the saved state: the same object is not
      // serialized again.
      if (waiting === null && value === last) return;
      waiting = value;
      const wait = Math.max(0, lastWrite + WRITE_INTERVAL - performance.now());
      timer ??= setTimeout(() => void flush(), wait);
    },
    async read(parse) {
      try {
        const text = await file.read();
        return text === null ? null : parse(text);
      } catch (error) {
        log.error('cannot read a state file; starting without it', { error: (error as Error).message });
        return null;
      }
    },
    flush,
  };
}
