import type { Clock } from '../../lib/process/clock.ts';
import type { StateFile } from '../../lib/process/state-file.ts';
import type { NamesLog } from './name-reports.ts';

/** Milliseconds until new addresses, or only later times of known ones, are on disk. */
const WITHIN = { changed: 1_000, seen: 60_000 } as const;
/** Milliseconds until a failed write is retried. */
const RETRY = 10_000;
/** Writing takes at most 1/SHARE of the time. */
const SHARE = 50;

export interface NameSaverOptions {
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
export class NameSaver {
  readonly #options: NameSaverOptions;
  #planned: { readonly at: number; readonly cancel: () => void } | null = null;
  #earliest = Number.NEGATIVE_INFINITY;
  #isFailing = false;
  #isClosed = false;
  #writing: Promise<void> = Promise.resolve();

  constructor(options: NameSaverOptions) {
    this.#options = options;
  }

  /** Requests a write: because addresses changed, or the same ones were seen again. */
  request(what: keyof typeof WITHIN): void {
    this.#plan(WITHIN[what]);
  }

  /** Writes the current content. From then on nothing is written or retried. */
  close(): Promise<void> {
    this.#isClosed = true;
    return this.#writeNow();
  }

  #writeNow(): Promise<void> {
    this.#planned?.cancel();
    this.#planned = null;
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  #plan(within: number): void {
    if (this.#isClosed) return;
    const { clock } = this.#options;
    const at = Math.max(clock.now() + within, this.#earliest);
    if (this.#planned !== null && this.#planned.at <= at) return;
    this.#planned?.cancel();
    this.#planned = { at, cancel: clock.after(at - clock.now(), () => void this.#writeNow()) };
  }

  async #write(): Promise<void> {
    const { file, clock, log, text } = this.#options;
    const started = clock.now();
    try {
      await file.write(text());
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) {
        log.error('cannot save the FQDN cache; its addresses stay in use, retrying', {
          stage: 'names',
          error: (error as Error).message,
        });
      }
      this.#isFailing = true;
      this.#plan(RETRY);
    }
    this.#earliest = clock.now() + SHARE * (clock.now() - started);
  }
}
