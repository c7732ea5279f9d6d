import { WIDTH } from './address.ts';
import { changedKeys, compareAt, concat, diffSingles, type FamilyMembers } from './packed-keys.ts';

/**
 * Members with changed addresses. A set of 100,000 addresses is not copied for each address that is
 * added or removed, but only when `singles` is read. Counts, look-ups and comparisons work on the
 * difference to the earlier members.
 */

/**
 * The keys of `base` without `removed`, which `base` has, and with `added`, which it has not; all
 * packed and sorted. Equal keys over the same base always have the same Delta.
 */
interface Delta {
  readonly base: Uint8Array;
  readonly removed: Uint8Array;
  readonly added: Uint8Array;
}

/** The difference of those members whose `singles` has not been read yet. Not enumerable. */
const DELTA = Symbol('delta');
type Singles = Pick<FamilyMembers, 'singles'> & { readonly [DELTA]?: Delta | null };

const NONE = new Uint8Array(0);
/**
 * Bytes. A base of up to this size is copied at once; so is one whose difference is larger than
 * this.
 */
const SMALL = 4096;

function deltaOf(members: Singles): Delta {
  return members[DELTA] ?? { base: members.singles, removed: NONE, added: NONE };
}

/**
 * The members without the addresses in `removed` and with those in `added`, both packed and sorted;
 * an address in both is in the result. Returns the same object if nothing changes.
 */
export function withSingles(members: FamilyMembers, removed: Uint8Array, added: Uint8Array): FamilyMembers {
  const { family, prefixes } = members;
  const width = WIDTH[family];
  const before = deltaOf(members);
  if (before.base.length <= SMALL) {
    const singles = changedKeys(members.singles, removed, added, width);
    return singles === members.singles ? members : { family, singles, prefixes };
  }
  const delta = changed(before, removed, added, width);
  if (delta === before) return members;
  const isLarge = delta.added.length + delta.removed.length > SMALL;
  return isLarge ? { family, singles: together(delta, width), prefixes } : lazily(members, delta);
}

function lazily({ family, prefixes }: FamilyMembers, made: Delta): FamilyMembers {
  let delta: Delta | null = made;
  let singles: Uint8Array = NONE;
  const members = {
    family,
    get singles() {
      if (delta !== null) singles = together(delta, WIDTH[family]);
      delta = null;
      return singles;
    },
    prefixes,
  };
  return Object.defineProperty(members, DELTA, { get: () => delta });
}

function together({ base, removed, added }: Delta, width: number): Uint8Array {
  return changedKeys(base, removed, added, width);
}

/** Returns the same object if nothing changes. */
function changed(delta: Delta, less: Uint8Array, more: Uint8Array, width: number): Delta {
  const { base, removed, added } = delta;
  const fresh: Uint8Array[] = [];
  const back: Uint8Array[] = [];
  const taken: Uint8Array[] = [];
  const deleted: Uint8Array[] = [];
  for (const key of keysOf(more, width)) {
    if (isAmong(removed, key)) back.push(key);
    else if (!isAmong(added, key) && !isAmong(base, key)) fresh.push(key);
  }
  for (const key of keysOf(less, width)) {
    if (isAmong(more, key)) continue;
    if (isAmong(added, key)) taken.push(key);
    else if (!isAmong(removed, key) && isAmong(base, key)) deleted.push(key);
  }
  const now = {
    base,
    removed: changedKeys(removed, concat(back), concat(deleted), width),
    added: changedKeys(added, concat(taken), concat(fresh), width),
  };
  return now.removed === removed && now.added === added ? delta : now;
}

function* keysOf(packed: Uint8Array, width: number): Iterable<Uint8Array> {
  for (let at = 0; at < packed.length; at += width) yield packed.subarray(at, at + width);
}

/** Binary search; `keys` is sorted. */
function isAmong(keys: Uint8Array, key: Uint8Array): boolean {
  let low = 0;
  let high = keys.length / key.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const order = compareAt(keys, middle * key.length, key, 0, key.length);
    if (order === 0) return true;
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  return false;
}

export function singlesCount(members: FamilyMembers): number {
  const { base, removed, added } = deltaOf(members);
  return (base.length - removed.length + added.length) / WIDTH[members.family];
}

/** Whether `key`, one packed address, is among the singles. */
export function hasSingle(members: FamilyMembers, key: Uint8Array): boolean {
  const { base, removed, added } = deltaOf(members);
  return isAmong(added, key) || (isAmong(base, key) && !isAmong(removed, key));
}

export function sameSingles(a: Singles, b: Singles): boolean {
  if (a === b) return true;
  const [one, other] = [deltaOf(a), deltaOf(b)];
  if (one.base !== other.base) return Buffer.compare(a.singles, b.singles) === 0;
  return Buffer.compare(one.removed, other.removed) === 0 && Buffer.compare(one.added, other.added) === 0;
}

/**
 * Packed addresses in `now` but not in `before` (added), and the reverse (removed); both sorted.
 */
export function diffMembers(
  before: FamilyMembers,
  now: FamilyMembers,
): { readonly added: Uint8Array; readonly removed: Uint8Array } {
  const width = WIDTH[now.family];
  const [was, is] = [deltaOf(before), deltaOf(now)];
  if (was.base !== is.base) return diffSingles(width, before.singles, now.singles);
  const removed = diffSingles(width, was.removed, is.removed);
  const added = diffSingles(width, was.added, is.added);
  return {
    added: changedKeys(added.added, NONE, removed.removed, width),
    removed: changedKeys(removed.added, NONE, added.removed, width),
  };
}
