import type { Clock } from '../../lib/process/clock.ts';
import type { StateFile } from '../../lib/process/state-file.ts';
import type { NamesLog } from './name-reports.ts';

/** Milliseconds until new addresses, or only later times of known ones, are on disk. */
const WITHIN = { changed: 1_000, seen: 60_000 } as const;
/** Milliseconds until a failed write is retried. */
const RETRY = 10_000;
/** Writing takes at most 1/SHARE of the time. */
const SHARE = 50;

export interface NameSaver {
  /** Requests a write: because addresses changed, or the same ones were seen again. */
  request(what: keyof typeof WITHIN): void;
  /** Writes now if a write is pending. */
  flush(): Promise<void>;
}

export interface NameSaverParts {
  readonly file: StateFile;
  readonly clock: Clock;
  readonly log: NamesLog;
  /** The current content for the file. */
  readonly text: () => string;
}

/**
 * Keeps the file up to date. A write failure is logged once until writing works again, and has no
 * other effect.
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
        log.error('cannot save the FQDN cache; its addresses stay in use, retrying', {
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
