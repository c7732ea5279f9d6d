import type { Clock } from '../../lib/process/clock.ts';
import type { StateFile } from '../../lib/process/state-file.ts';
import { type AddressState, addressState, type NameEntry, type NameSource } from './name-entry.ts';

/** A name as saved. Times are in milliseconds: the clock's in the agent, since 1970 in the file. */
export interface SavedName {
  readonly name: string;
  /** Why it did not resolve; null if it did, or if it was not queried. */
  readonly failing: string | null;
  readonly addresses: readonly SavedAddress[];
}

export interface SavedAddress {
  readonly address: string;
  readonly source: NameSource;
  readonly seen: number;
  readonly expires: number;
  /** The state at the time of saving. */
  readonly state: AddressState;
}

/** The content of the file. */
export interface SavedNames {
  /** When the file was written, in milliseconds since 1970. */
  readonly saved: number;
  readonly names: readonly SavedName[];
}

/** Name of the file in the state directory. */
export const NAMES_FILE = 'names.jsonl';

/** An entry as it is saved, addresses sorted. */
export function toSavedName(
  entry: NameEntry,
  time: { readonly now: number; readonly keep: number },
): SavedName {
  const addresses = [...entry.addresses].map(([address, known]) => ({
    address,
    source: known.source,
    seen: known.seen,
    expires: known.expires,
    state: addressState(entry, known, time),
  }));
  addresses.sort((a, b) => (a.address < b.address ? -1 : 1));
  return { name: entry.name, failing: entry.failing, addresses };
}

/**
 * Formats a line with the time, then one line per name. `offset` is added to the clock's times to
 * get milliseconds since 1970.
 */
export function toNamesText(names: readonly SavedName[], now: number, offset: number): string {
  const lines = [{ saved: Math.round(now + offset) }, ...names.map((name) => shifted(name, offset))];
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}

/**
 * Parses the text of toNamesText; times are in milliseconds since 1970. Entries of another form are
 * left out. Throws a SyntaxError for a line that is not JSON.
 */
export function parseNamesText(text: string): SavedNames {
  const [first, ...names] = text
    .split('\n')
    .filter((line) => line !== '')
    .map((line): unknown => JSON.parse(line));
  const { saved } = (first ?? {}) as { saved?: unknown };
  return { saved: typeof saved === 'number' ? saved : 0, names: names.filter(isSavedName) };
}

/** The name with all times shifted by `by` milliseconds. */
export function shifted(name: SavedName, by: number): SavedName {
  const addresses = name.addresses.map((one) => ({
    ...one,
    seen: Math.round(one.seen + by),
    expires: Math.round(one.expires + by),
  }));
  return { ...name, addresses };
}

function isSavedName(value: unknown): value is SavedName {
  const { name, failing, addresses } = (value ?? {}) as Partial<SavedName>;
  const isNamed = typeof name === 'string' && (failing === null || typeof failing === 'string');
  return isNamed && Array.isArray(addresses) && addresses.every(isSavedAddress);
}

function isSavedAddress(value: unknown): value is SavedAddress {
  const { address, source, seen, expires, state } = (value ?? {}) as Partial<SavedAddress>;
  return (
    typeof address === 'string' &&
    (source === 'resolved' || source === 'learnt') &&
    Number.isFinite(seen) &&
    Number.isFinite(expires) &&
    (state === 'fresh' || state === 'kept' || state === 'stale')
  );
}

/** Milliseconds until new addresses, or only later times of known ones, are on disk. */
const WITHIN = { changed: 1_000, seen: 60_000 } as const;
/** Milliseconds until a failed write is retried. */
const RETRY = 10_000;
/** Writing takes at most 1/SHARE of the time. */
const SHARE = 50;

interface NameSaverOptions {
  readonly file: StateFile;
  readonly clock: Clock;
  readonly log: { error(message: string, fields: object): unknown };
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
