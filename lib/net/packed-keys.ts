import { type Cidr, type Family, WIDTH } from './address.ts';

/**
 * The members of an AddressSet in one family. No address is in both parts. `singles` are packed as
 * the kernel takes them: network byte order, `WIDTH[family]` bytes each, sorted, without
 * duplicates. 100,000 IPv4 addresses take 400 kB in one allocation.
 */
export interface FamilyMembers {
  readonly family: Family;
  readonly singles: Uint8Array;
  /** Sorted, disjoint, and the fewest that cover the static blocks; none is a single address. */
  readonly prefixes: readonly Cidr[];
}

/**
 * Packed addresses: keys of `width` bytes, concatenated, sorted in byte order, without duplicates.
 */

/**
 * Packed keys of `width` bytes in `desired` but not in `current` (added), and the reverse
 * (removed); both sorted. Common runs are compared as memory in steps that double, and the end of a
 * run that only one side has is found by exponential and binary search: the cost depends on the
 * changes, hardly on the number of keys.
 */
export function diffSingles(
  width: number,
  current: Uint8Array,
  desired: Uint8Array,
): { readonly added: Uint8Array; readonly removed: Uint8Array } {
  const [before, now] = [asBuffer(current), asBuffer(desired)];
  const added: Uint8Array[] = [];
  const removed: Uint8Array[] = [];
  let c = 0;
  let d = 0;
  while (c < before.length && d < now.length) {
    const same = commonKeys(before, c, now, d, width);
    c += same;
    d += same;
    if (c === before.length || d === now.length) break;
    if (compareAt(before, c, now, d, width) < 0) {
      const end = firstFrom(before, c, now, d, width);
      removed.push(before.subarray(c, end));
      c = end;
    } else {
      const end = firstFrom(now, d, before, c, width);
      added.push(now.subarray(d, end));
      d = end;
    }
  }
  if (c < before.length) removed.push(before.subarray(c));
  if (d < now.length) added.push(now.subarray(d));
  return { added: Buffer.concat(added), removed: Buffer.concat(removed) };
}

/** A Buffer over the same memory. */
function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/**
 * Length in bytes of the run of whole keys that both have in common, from `a[atA]` and `b[atB]` on.
 */
function commonKeys(a: Buffer, atA: number, b: Buffer, atB: number, width: number): number {
  const most = Math.min(a.length - atA, b.length - atB);
  const isSame = (from: number, to: number): boolean =>
    a.compare(b, atB + from, atB + to, atA + from, atA + to) === 0;
  let low = 0;
  let high = width;
  if (compareAt(a, atA, b, atB, width) !== 0) return 0;
  while (isSame(low, high)) {
    low = high;
    if (low === most) return most;
    high = Math.min(most, 2 * high);
  }
  // Equal up to `low`, not up to `high`.
  while (high - low > width) {
    const middle = low + width * Math.floor((high - low) / (2 * width));
    if (isSame(low, middle)) low = middle;
    else high = middle;
  }
  return low;
}

/**
 * Offset of the first key of `keys`, from `from` on, that is not less than the key at `b[atB]`; the
 * end if there is none.
 */
function firstFrom(keys: Uint8Array, from: number, b: Uint8Array, atB: number, width: number): number {
  if (from >= keys.length || compareAt(keys, from, b, atB, width) >= 0) return from;
  let low = from;
  let step = width;
  while (low + step < keys.length && compareAt(keys, low + step, b, atB, width) < 0) {
    low += step;
    step *= 2;
  }
  let high = Math.min(low + step, keys.length);
  // The key at `low` is less; the one at `high` is not less, or `high` is the end.
  while (high - low > width) {
    const middle = low + width * Math.floor((high - low) / (2 * width));
    if (compareAt(keys, middle, b, atB, width) < 0) low = middle;
    else high = middle;
  }
  return high;
}

/**
 * Sorted keys without those of `removed` and with those of `added`, both sorted too; a key in both
 * is in the result. Returns the same array if nothing changes. Costs one copy, and a search for
 * each key of the change.
 */
function changedKeys(keys: Uint8Array, removed: Uint8Array, added: Uint8Array, width: number): Uint8Array {
  if (keys.length === 0) return added.length === 0 ? keys : added;
  const parts: Uint8Array[] = [];
  let copied = 0;
  let from = 0;
  let r = 0;
  let a = 0;
  while (r < removed.length || a < added.length) {
    const order = r === removed.length ? 1 : a === added.length ? -1 : compareAt(removed, r, added, a, width);
    const isWanted = order >= 0;
    const [named, at] = isWanted ? [added, a] : [removed, r];
    from = firstFrom(keys, from, named, at, width);
    const isThere = from < keys.length && compareAt(keys, from, named, at, width) === 0;
    if (isThere !== isWanted) {
      parts.push(keys.subarray(copied, from));
      if (isWanted) parts.push(added.subarray(a, a + width));
      copied = isThere ? from + width : from;
    }
    if (order <= 0) r += width;
    if (order >= 0) a += width;
  }
  return parts.length === 0 ? keys : concat([...parts, keys.subarray(copied)]);
}

/** Concatenates into a new buffer outside of Node's pool for small buffers. */
export function concat(parts: readonly Uint8Array[]): Uint8Array {
  // All bytes are written below: no need to fill with zeros.
  const { buffer } = Buffer.allocUnsafeSlow(parts.reduce((length, part) => length + part.length, 0));
  const whole = new Uint8Array(buffer);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Negative if the key of `a` is less, 0 if both are equal. */
export function compareAt(a: Uint8Array, atA: number, b: Uint8Array, atB: number, width: number): number {
  for (let i = 0; i < width; i++) {
    const difference = (a[atA + i] ?? 0) - (b[atB + i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

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
