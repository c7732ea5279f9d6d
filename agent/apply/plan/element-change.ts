import { type Cidr, type Family, lastAddress, WIDTH } from '../../../lib/net/address.ts';
import { diffSingles, sameMembers, unpackAddress } from '../../../lib/net/member-set.ts';
import { KEY_LENGTH, type NamedSet, type SetMembers } from '../../render/ruleset.ts';
import { type ChainVerdict, mapKeyLength, type VerdictMap } from '../../render/verdict-map.ts';
import type { ElementsCommand } from './command.ts';
import { type CurrentMap, type CurrentSet, isKnownMap } from './current-state.ts';

/**
 * The commands that give a set its desired members. First `more`, then `less`, each in one
 * transaction (commands that only add or only delete may be divided). So an address that is a
 * member before and after is one at every moment, and one that moves to another set is for a moment
 * in both, never in neither.
 */
interface MemberChange {
  readonly more: readonly ElementsCommand[];
  readonly less: readonly ElementsCommand[];
}

const NO_MEMBER_CHANGE: MemberChange = { more: [], less: [] };
const NO_MEMBERS: SetMembers = { singles: new Uint8Array(), prefixes: [] };

export function memberChange(current: CurrentSet | undefined, set: NamedSet): MemberChange {
  const { members, interval, family } = set;
  // The program that renews the elements knows better than the reconciler which are there.
  if (set.timed && current !== undefined) return NO_MEMBER_CHANGE;
  const before = current === undefined ? NO_MEMBERS : current.members;
  if (before === null) return { more: [flush(set), ...change('addElements', set, members)], less: [] };
  if (sameMembers(before, members)) return NO_MEMBER_CHANGE;
  const singles = diffSingles(KEY_LENGTH[set.key][family], before.singles, members.singles);
  const prefixes = diffPrefixes(before.prefixes, members.prefixes);
  const added = { singles: singles.added, prefixes: prefixes.added };
  const removed = { singles: singles.removed, prefixes: prefixes.removed };
  // The kernel refuses ranges that overlap, so a range that replaces another can't be added before
  // the other is deleted.
  if (interval && count(set, added) > 0 && count(set, removed) > 0) return replaceRanges(set, removed, added);
  return { more: change('addElements', set, added), less: change('deleteElements', set, removed) };
}

function flush(set: NamedSet): ElementsCommand {
  const { interval } = set;
  const keyLength = KEY_LENGTH[set.key][set.family];
  return { kind: 'flushElements', set: set.name, keyLength, interval, keys: new Uint8Array() };
}

function change(
  kind: 'addElements' | 'deleteElements',
  set: NamedSet,
  members: SetMembers,
): ElementsCommand[] {
  const { interval } = set;
  const keyLength = KEY_LENGTH[set.key][set.family];
  const keys = interval
    ? Buffer.concat([packRanges(set.family, toPrefixRanges(members)), doubled(members.singles, keyLength)])
    : members.singles;
  if (keys.length === 0) return [];
  const command = { kind, set: set.name, keyLength, interval, keys } as const;
  if (set.timeout === undefined) return [command];
  return [{ ...command, timeouts: new Array(keys.length / keyLength).fill(set.timeout) }];
}

function count({ key, family }: NamedSet, { singles, prefixes }: SetMembers): number {
  return singles.length / KEY_LENGTH[key][family] + prefixes.length;
}

/** Both lists must be sorted. */
export function diffPrefixes(
  before: readonly Cidr[],
  after: readonly Cidr[],
): { readonly added: readonly Cidr[]; readonly removed: readonly Cidr[] } {
  const added: Cidr[] = [];
  const removed: Cidr[] = [];
  if (before === after) return { added, removed };
  let b = 0;
  let a = 0;
  for (;;) {
    const [old, now] = [before[b], after[a]];
    if (old === undefined && now === undefined) return { added, removed };
    const order = old === undefined ? 1 : now === undefined ? -1 : comparePrefixes(old, now);
    if (order < 0 && old !== undefined) removed.push(old);
    if (order > 0 && now !== undefined) added.push(now);
    if (order <= 0) b++;
    if (order >= 0) a++;
  }
}

function comparePrefixes(a: Cidr, b: Cidr): number {
  return a === b ? 0 : a.value < b.value ? -1 : a.value > b.value ? 1 : a.length - b.length;
}

/** A prefix or a single address. */
interface Range {
  readonly first: bigint;
  readonly last: bigint;
  readonly isAdded: boolean;
}

/**
 * Two prefixes are either disjoint or nested. So each outermost range, with the ranges within it,
 * either grows (it is added, they are deleted) or shrinks (it is deleted, they are added), in one
 * transaction. `more` has those that grow, `less` those that shrink.
 */
function replaceRanges(set: NamedSet, removed: SetMembers, added: SetMembers): MemberChange {
  const ranges = [...toRanges(set, removed, false), ...toRanges(set, added, true)].sort((a, b) =>
    a.first === b.first ? (a.last > b.last ? -1 : 1) : a.first < b.first ? -1 : 1,
  );
  const more: Range[] = [];
  const less: Range[] = [];
  let outermost: Range | null = null;
  for (const range of ranges) {
    if (outermost === null || range.first > outermost.last) outermost = range;
    (outermost.isAdded ? more : less).push(range);
  }
  return { more: rangeCommands(set, more), less: rangeCommands(set, less) };
}

function toRanges({ key, family }: NamedSet, { singles, prefixes }: SetMembers, isAdded: boolean): Range[] {
  const width = KEY_LENGTH[key][family];
  const ranges: Range[] = toPrefixRanges({ prefixes }).map((range) => ({ ...range, isAdded }));
  for (let at = 0; at < singles.length; at += width) {
    const { value } = unpackAddress(family, singles, at);
    ranges.push({ first: value, last: value, isAdded });
  }
  return ranges;
}

function toPrefixRanges({ prefixes }: Pick<SetMembers, 'prefixes'>) {
  return prefixes.map((cidr) => ({ first: cidr.value, last: lastAddress(cidr) }));
}

function rangeCommands(set: NamedSet, ranges: readonly Range[]): ElementsCommand[] {
  const { name, family, interval } = set;
  const keyLength = KEY_LENGTH[set.key][family];
  return [false, true].flatMap((isAdded): ElementsCommand[] => {
    const own = ranges.filter((range) => range.isAdded === isAdded);
    if (own.length === 0) return [];
    const keys = packRanges(family, own);
    return [{ kind: isAdded ? 'addElements' : 'deleteElements', set: name, keyLength, interval, keys }];
  });
}

/** Pairs of first and last address, packed. */
function packRanges(family: Family, ranges: readonly Pick<Range, 'first' | 'last'>[]): Uint8Array {
  const packed = new DataView(new ArrayBuffer(2 * WIDTH[family] * ranges.length));
  let at = 0;
  for (const { first, last } of ranges) {
    for (const value of [first, last]) {
      if (family === 4) packed.setUint32(at, Number(value));
      else {
        packed.setBigUint64(at, value >> 64n);
        packed.setBigUint64(at + 8, value & 0xffff_ffff_ffff_ffffn);
      }
      at += WIDTH[family];
    }
  }
  return new Uint8Array(packed.buffer);
}

/** A single address in an interval set is a range of one address. */
function doubled(singles: Uint8Array, width: number): Uint8Array {
  const ranges = new Uint8Array(singles.length * 2);
  for (let at = 0; at < singles.length; at += width) {
    const key = singles.subarray(at, at + width);
    ranges.set(key, 2 * at);
    ranges.set(key, 2 * at + width);
  }
  return ranges;
}

/**
 * The commands that give a verdict map in use its desired elements. `swap`: keys that are new, and
 * keys that get another verdict, each deleted and added in one transaction, so that lookups go from
 * one verdict to the other at once. `less`: keys that are no longer desired, deleted in a later
 * transaction.
 */
interface MapChange {
  readonly swap: readonly ElementsCommand[];
  readonly less: readonly ElementsCommand[];
}

const NO_MAP_CHANGE: MapChange = { swap: [], less: [] };

/** The commands that fill a new map. */
export function mapElements(map: VerdictMap): ElementsCommand[] {
  const { name, interval, keys, targets, verdicts } = map;
  if (keys.length === 0) return [];
  const keyLength = mapKeyLength(map);
  return [{ kind: 'addElements', set: name, keyLength, interval, keys, targets, verdicts }];
}

/** Both must be hash maps with the same kind of key. */
export function mapChange(current: CurrentMap, map: VerdictMap): MapChange {
  if (isKnownMap(current, map)) return NO_MAP_CHANGE;
  const keyLength = mapKeyLength(map);
  const where = { set: map.name, keyLength, interval: false } as const;
  if (current.keys === null) {
    const flush = { ...where, kind: 'flushElements', keys: new Uint8Array() } as const;
    return { swap: [flush, ...mapElements(map)], less: [] };
  }
  const { added, changed, removed } = diffElements({ ...current, keys: current.keys }, map, keyLength);
  const deleteKeys = (keys: Uint8Array): ElementsCommand[] =>
    keys.length === 0 ? [] : [{ ...where, kind: 'deleteElements', keys }];
  const addPlaces = (places: readonly number[]): ElementsCommand[] =>
    places.length === 0 ? [] : [{ ...where, kind: 'addElements', ...pick(map, places, keyLength) }];
  const again = pickKeys(map.keys, changed, keyLength);
  const fresh = [...changed, ...added].sort((a, b) => a - b);
  return {
    swap: [...deleteKeys(again), ...addPlaces(fresh)],
    less: deleteKeys(pickKeys(current.keys, removed, keyLength)),
  };
}

/** Whether two maps have the same elements. */
export function sameElements(current: CurrentMap, map: VerdictMap): boolean {
  if (isKnownMap(current, map)) return true;
  if (current.keys === null || current.targets.length !== map.targets.length) return false;
  if (Buffer.compare(current.keys, map.keys) !== 0) return false;
  return map.targets.every((target, i) =>
    sameVerdict(current.verdicts[current.targets[i] ?? -1], map.verdicts[target]),
  );
}

interface Elements {
  readonly keys: Uint8Array;
  readonly targets: Uint32Array;
  readonly verdicts: readonly ChainVerdict[];
}

/**
 * Indexes in `after` of the elements that are added or get another verdict, and in `before` of
 * those that are removed. Both inputs are sorted by key.
 */
function diffElements(before: Elements, after: Elements, width: number) {
  const added: number[] = [];
  const changed: number[] = [];
  const removed: number[] = [];
  const same = commonEnds(before, after, width);
  let b = same.first;
  let a = same.first;
  const [bEnd, aEnd] = [before.targets.length - same.last, after.targets.length - same.last];
  while (b < bEnd || a < aEnd) {
    const order =
      b === bEnd ? 1 : a === aEnd ? -1 : compareKeys(before.keys, b * width, after.keys, a * width, width);
    if (order < 0) removed.push(b++);
    else if (order > 0) added.push(a++);
    else if (sameVerdict(verdictAt(before, b++), verdictAt(after, a))) a++;
    else changed.push(a++);
  }
  return { added, changed, removed };
}

function verdictAt({ targets, verdicts }: Elements, at: number): ChainVerdict | undefined {
  return verdicts[targets[at] ?? -1];
}

function sameVerdict(a: ChainVerdict | undefined, b: ChainVerdict | undefined): boolean {
  return a === b || (a !== undefined && a.chain === b?.chain && a.kind === b.kind);
}

function compareKeys(a: Uint8Array, atA: number, b: Uint8Array, atB: number, width: number): number {
  for (let i = 0; i < width; i++) {
    const order = (a[atA + i] ?? 0) - (b[atB + i] ?? 0);
    if (order !== 0) return order;
  }
  return 0;
}

/**
 * How many elements at the start and at the end are equal in both, compared as memory: one more
 * address among 100,000 costs microseconds. This needs equal verdicts at equal indexes, except
 * beyond the end of the shorter list; otherwise both numbers are 0.
 */
function commonEnds(before: Elements, after: Elements, width: number): { first: number; last: number } {
  const verdicts = Math.min(before.verdicts.length, after.verdicts.length);
  if (before.verdicts !== after.verdicts) {
    for (let i = 0; i < verdicts; i++) {
      if (!sameVerdict(before.verdicts[i], after.verdicts[i])) return { first: 0, last: 0 };
    }
  }
  const most = Math.min(before.targets.length, after.targets.length);
  const keys = [asBuffer(before.keys), asBuffer(after.keys)] as const;
  const targets = [asBuffer(before.targets), asBuffer(after.targets)] as const;
  const isSame = (from: number, to: number, [shiftB, shiftA]: readonly [number, number]): boolean =>
    isSameMemory(keys, from * width, to * width, [shiftB * width, shiftA * width]) &&
    isSameMemory(targets, from * 4, to * 4, [shiftB * 4, shiftA * 4]);
  const first = longest(most, (from, to) => isSame(from, to, [0, 0]));
  const ends = [before.targets.length, after.targets.length] as const;
  const last = longest(most - first, (from, to) => isSame(-to, -from, ends));
  return { first, last };
}

function isSameMemory(
  [before, after]: readonly [Buffer, Buffer],
  from: number,
  to: number,
  [b, a]: readonly [number, number],
): boolean {
  return before.compare(after, a + from, a + to, b + from, b + to) === 0;
}

/**
 * The largest number up to `most` such that `holds` for everything below it, found with steps that
 * double.
 */
function longest(most: number, holds: (from: number, to: number) => boolean): number {
  let low = 0;
  let step = 1;
  while (low < most && holds(low, Math.min(most, low + step))) {
    low = Math.min(most, low + step);
    step *= 2;
  }
  let high = Math.min(most, low + step);
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if (holds(low, middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array | Uint32Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

function pickKeys(keys: Uint8Array, places: readonly number[], width: number): Uint8Array {
  const picked = new Uint8Array(places.length * width);
  for (const [i, place] of places.entries()) {
    picked.set(keys.subarray(place * width, (place + 1) * width), i * width);
  }
  return picked;
}

/** The elements at these indexes, with only the verdicts that they use. */
function pick({ keys, targets, verdicts }: Elements, places: readonly number[], width: number): Elements {
  const numbers = new Map<number, number>();
  const used: ChainVerdict[] = [];
  const picked = Uint32Array.from(places, (place) => {
    const target = targets[place] ?? -1;
    const verdict = verdicts[target];
    if (verdict === undefined) throw new RangeError(`there is no verdict ${target}`);
    let number = numbers.get(target);
    if (number === undefined) {
      number = used.push(verdict) - 1;
      numbers.set(target, number);
    }
    return number;
  });
  return { keys: pickKeys(keys, places, width), targets: picked, verdicts: used };
}
