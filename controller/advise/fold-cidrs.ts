import type { IPBlock } from '../../apis/objects.ts';
import {
  type Address,
  BITS,
  type Cidr,
  covers,
  FAMILIES,
  type Family,
  formatCidr,
  lastAddress,
} from '../../lib/net/address.ts';
import { toCidrs, toInterval, union } from '../../lib/net/interval.ts';

interface Folded {
  readonly blocks: readonly IPBlock[];
  /** Whether they cover more than what was given. */
  readonly isWider: boolean;
  /** Families that became everything, because their addresses are everywhere. */
  readonly everything: readonly Family[];
}

/** No CIDR becomes wider than this by being joined. */
const WIDEST = { 4: 8, 6: 20 } as const;
/** More CIDRs than that, which are still too many, are from everywhere. */
const EVERYWHERE = 32;
/** With more exceptions a CIDR cannot be read; its own addresses stand there instead. */
const MOST_EXCEPTIONS = 16;

/**
 * The CIDRs as few: neighbours with the longest common prefix are joined first. There are more than
 * `most` where joining would make one wider than /8 (IPv6: /20). O(n log n).
 *
 * @param avoid addresses that a wider CIDR must not cover
 */
export function foldCidrs(given: readonly Cidr[], most: number, avoid: readonly Address[]): Folded {
  const exact = FAMILIES.flatMap((family) => {
    const own = given.filter((one) => one.family === family).map(toInterval);
    return union(own).flatMap((interval) => toCidrs(family, interval));
  });
  const groups = grouped(exact, most);
  const everything = FAMILIES.filter(
    (family) => groups.filter(([first]) => first?.family === family).length > Math.max(most, EVERYWHERE),
  );
  const few = groups.filter(([first]) => first !== undefined && !everything.includes(first.family));
  const blocks = [
    ...few.flatMap((group) => {
      const block = toIPBlock(commonBlock(group), avoid);
      return (block.except ?? []).length > MOST_EXCEPTIONS
        ? group.map((one) => toIPBlock(one, avoid))
        : [block];
    }),
    ...everything.map((family) => toIPBlock({ family, value: 0n, length: 0 }, avoid)),
  ];
  const isWider = groups.some((group) => group.length > 1) || everything.length > 0;
  return { blocks, isWider, everything };
}

/** Neighbours to be joined, until `most` groups are left or the rest is too far apart. */
function grouped(exact: readonly Cidr[], most: number): Cidr[][] {
  const joints = exact.slice(1).flatMap((next, i) => {
    const last = exact[i];
    if (last === undefined || last.family !== next.family) return [];
    const { length, family } = commonBlock([last, next]);
    return length < WIDEST[family] ? [] : [{ next, closeness: length / BITS[family] }];
  });
  joints.sort((a, b) => b.closeness - a.closeness);
  const joined = new Set(joints.slice(0, Math.max(0, exact.length - most)).map(({ next }) => next));
  const groups: Cidr[][] = [];
  for (const one of exact) {
    const group = groups.at(-1);
    if (group !== undefined && (joined.has(one) || covers(commonBlock(group), one))) group.push(one);
    else groups.push([one]);
  }
  return groups;
}

/** The longest prefix that covers all; they are sorted, and of one family. */
function commonBlock(group: readonly Cidr[]): Cidr {
  const [first, last] = [group[0], group.at(-1)];
  if (first === undefined || last === undefined) throw new TypeError('no CIDR has no common prefix');
  const { family } = first;
  const difference = first.value ^ lastAddress(last);
  const free = difference === 0n ? 0 : difference.toString(2).length;
  return { family, value: (first.value >> BigInt(free)) << BigInt(free), length: BITS[family] - free };
}

/** With the length, also of a single address, as `ipBlock.cidr` needs it. */
export function toIPBlock(block: Cidr, avoid: readonly Address[] = []): IPBlock {
  const bits = BITS[block.family];
  const own = avoid
    .map((one): Cidr => ({ ...one, length: BITS[one.family] }))
    .filter((one) => block.length < bits && covers(block, one));
  const except = [...new Set(own.map((one) => toIPBlock(one).cidr))].sort();
  const cidr = block.length < bits ? formatCidr(block) : `${formatCidr(block)}/${bits}`;
  return { cidr, ...(except.length === 0 ? {} : { except }) };
}
