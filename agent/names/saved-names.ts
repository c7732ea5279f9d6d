import { type AddressState, addressState, type NameEntry, type NameSource } from './name-entry.ts';

/**
 * A name as it is saved. Times in milliseconds: the clock's in the agent, since 1970 in the file.
 */
export interface SavedName {
  readonly name: string;
  /** Why it didn't resolve; null if it did, or nobody asked. */
  readonly failing: string | null;
  readonly addresses: readonly SavedAddress[];
}

export interface SavedAddress {
  readonly address: string;
  readonly source: NameSource;
  readonly seen: number;
  readonly expires: number;
  /** When it was saved. */
  readonly state: AddressState;
}

/** What the file holds. */
export interface SavedNames {
  /** When it was written, in milliseconds since 1970. */
  readonly saved: number;
  readonly names: readonly SavedName[];
}

export const NAMES_FILE = 'names.jsonl';

/** Sorted by address. */
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
 * A line that says when, then one name a line. `offset` is what to add to the clock's time for
 * milliseconds since 1970.
 */
export function toNamesText(names: readonly SavedName[], now: number, offset: number): string {
  const lines = [{ saved: Math.round(now + offset) }, ...names.map((name) => shifted(name, offset))];
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}

/** Times since 1970. What isn't as toNamesText writes it is left out. */
export function parseNamesText(text: string): SavedNames {
  const [first, ...names] = text
    .split('\n')
    .filter((line) => line !== '')
    .map((line): unknown => JSON.parse(line));
  const { saved } = (first ?? {}) as { saved?: unknown };
  return { saved: typeof saved === 'number' ? saved : 0, names: names.filter(isSavedName) };
}

/** The names with all times moved. */
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
