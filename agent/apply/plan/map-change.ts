import { type ChainVerdict, mapKeyLength, type VerdictMap } from '../../render/verdict-map.ts';
import type { ElementsCommand } from './command.ts';
import { type CurrentMap, isKnownMap } from './current-state.ts';

/**
 * The commands that give a verdict map in use its desired elements. `swap`: keys that are new, and
 * keys that get another verdict, each deleted and added in one transaction, so that lookups go from
 * one verdict to the other at once. `less`: keys that are no longer desired, deleted in a later
 * transaction.
 */
export interface MapChange {
  readonly swap: readonly ElementsCommand[];
  readonly less: readonly ElementsCommand[];
}

const NO_CHANGE: MapChange = { swap: [], less: [] };

/** The commands that fill a new map. */
export function mapElements(map: VerdictMap): ElementsCommand[] {
  const { name, interval, keys, targets, verdicts } = map;
  if (keys.length === 0) return [];
  const keyLength = mapKeyLength(map);
  return [{ kind: 'addElements', set: name, keyLength, interval, keys, targets, verdicts }];
}

/** Both must be hash maps with the same kind of key. */
export function mapChange(current: CurrentMap, map: VerdictMap): MapChange {
  if (isKnownMap(current, map)) return NO_CHANGE;
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
