import { type Cidr, type Family, lastAddress, WIDTH } from '../../../lib/net/address.ts';
import { diffSingles, sameMembers, unpackAddress } from '../../../lib/net/member-set.ts';
import { KEY_LENGTH, type NamedSet, type SetMembers } from '../../render/ruleset.ts';
import type { ElementsCommand } from './command.ts';
import type { CurrentSet } from './current-state.ts';

/**
 * The commands that give a set its desired members. First `more`, then `less`, each in one
 * transaction (commands that only add or only delete may be divided). So an address that is a
 * member before and after is one at every moment, and one that moves to another set is for a moment
 * in both, never in neither.
 */
export interface MemberChange {
  readonly more: readonly ElementsCommand[];
  readonly less: readonly ElementsCommand[];
}

const NO_CHANGE: MemberChange = { more: [], less: [] };
const NO_MEMBERS: SetMembers = { singles: new Uint8Array(), prefixes: [] };

export function memberChange(current: CurrentSet | undefined, set: NamedSet): MemberChange {
  const { members, interval, family } = set;
  // The program that renews the elements knows better than the reconciler which are there.
  if (set.timed && current !== undefined) return NO_CHANGE;
  const before = current === undefined ? NO_MEMBERS : current.members;
  if (before === null) return { more: [flush(set), ...change('addElements', set, members)], less: [] };
  if (sameMembers(before, members)) return NO_CHANGE;
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
