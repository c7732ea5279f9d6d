import type { Clock } from '../../lib/process/clock.ts';
import type { StateFile } from '../../lib/process/state-file.ts';
import type { NamesLog } from './name-reports.ts';

/** New addresses are on disk within so long, times that moved within so long (milliseconds). */
const WITHIN = { changed: 1_000, seen: 60_000 } as const;
/** A write that failed is tried again after so long (milliseconds). */
const RETRY = 10_000;
/** Writing takes at most one part in so many of the time. */
const SHARE = 50;

export interface NameSaver {
  /** There is something to save: other addresses, or the same ones seen again. */
  request(what: keyof typeof WITHIN): void;
  /** Writes what is waiting. */
  flush(): Promise<void>;
}

export interface NameSaverParts {
  readonly file: StateFile;
  readonly clock: Clock;
  readonly log: NamesLog;
  /** What is to be in the file now. */
  readonly text: () => string;
}

/**
 * Keeps the file up to date. A disk that fails is logged once until it works again, and stops
 * nothing.
 */
export function nameSaver({ file, clock, log, text }: NameSaverParts): NameSaver {
  let planned: { readonly at: number; readonly cancel: () => void } | null = null;
  let earliest = Number.NEGATIVE_INFINITY;
  let isFailing = false;
  let writing: Promise<void> = Promise.resolve();

  function plan(within: number): void {
    const at = Math.max(clock.now() + within, earliest);
    if (planned !== null && planned.at <= at) return;
    planned?.cancel();
    planned = { at, cancel: clock.after(at - clock.now(), () => void flush()) };
  }
  async function write(): Promise<void> {
    const started = clock.now();
    try {
      await file.write(text());
      isFailing = false;
    } catch (error) {
      if (!isFailing) {
        log.error('cannot save the names; they are used all the same, trying again', {
          stage: 'names',
          error: (error as Error).message,
        });
      }
      isFailing = true;
      plan(RETRY);
    }
    earliest = clock.now() + SHARE * (clock.now() - started);
  }
  function flush(): Promise<void> {
    if (planned === null) return writing;
    planned.cancel();
    planned = null;
    writing = writing.then(write);
    return writing;
  }
  return { request: (what) => plan(WITHIN[what]), flush };
}
