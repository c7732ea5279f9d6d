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

export interface FoldOptions {
  /** How many CIDRs are wanted, at most. */
  readonly most: number;
  /** Addresses that a wider CIDR must not cover. */
  readonly avoid: readonly Address[];
}

export interface Folded {
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
 */
export function foldCidrs(given: readonly Cidr[], { most, avoid }: FoldOptions): Folded {
  const exact = FAMILIES.flatMap((family) => {
    const own = given.filter((one) => one.family === family).map(toInterval);
    return union(own).flatMap((interval) => toCidrs(family, interval));
  });
  const groups = grouped(exact, most);
  const everything: Family[] = [];
  const blocks = FAMILIES.flatMap((family) => {
    const own = groups.filter(([first]) => first?.family === family);
    if (own.length > Math.max(most, EVERYWHERE)) {
      everything.push(family);
      return [withExceptions({ family, value: 0n, length: 0 }, avoid)];
    }
    return own.flatMap((group) => {
      const block = withExceptions(commonBlock(group), avoid);
      return (block.except ?? []).length > MOST_EXCEPTIONS && group.length > 1
        ? group.map((one) => withExceptions(one, avoid))
        : [block];
    });
  });
  const isWider = groups.some((group) => group.length > 1) || everything.length > 0;
  return { blocks, isWider, everything };
}

/** Neighbours to be joined, until `most` groups are left or the rest is too far apart. */
function grouped(exact: readonly Cidr[], most: number): Cidr[][] {
  const gaps = exact.slice(1).flatMap((next, i) => {
    const last = exact[i];
    if (last === undefined || last.family !== next.family) return [];
    const length = commonLength(last, next);
    return length < WIDEST[next.family] ? [] : [{ at: i + 1, closeness: length / BITS[next.family] }];
  });
  gaps.sort((a, b) => b.closeness - a.closeness || a.at - b.at);
  const closed = new Set(gaps.slice(0, Math.max(0, exact.length - most)).map(({ at }) => at));
  const groups: Cidr[][] = [];
  for (const [i, one] of exact.entries()) {
    const group = groups.at(-1);
    const isCovered = group !== undefined && covers(commonBlock(group), one);
    if (group !== undefined && (closed.has(i) || isCovered)) group.push(one);
    else groups.push([one]);
  }
  return groups;
}

function commonLength(a: Cidr, b: Cidr): number {
  const bits = BITS[a.family];
  const difference = a.value ^ b.value;
  const free = difference === 0n ? 0 : difference.toString(2).length;
  return Math.min(bits - free, a.length, b.length);
}

/** The longest prefix that covers all; they are sorted. */
function commonBlock(group: readonly Cidr[]): Cidr {
  const [first, last] = [group[0], group.at(-1)];
  if (first === undefined || last === undefined) throw new TypeError('no CIDR has no common prefix');
  const { family } = first;
  const length = commonLength(first, { family, value: lastAddress(last), length: BITS[family] });
  const free = BigInt(BITS[family] - length);
  return { family, value: (first.value >> free) << free, length };
}

function withExceptions(block: Cidr, avoid: readonly Address[]): IPBlock {
  const own = avoid
    .map((one): Cidr => ({ ...one, length: BITS[one.family] }))
    .filter((one) => block.length < BITS[block.family] && covers(block, one));
  const except = [...new Set(own.map(slashed))].sort();
  return { cidr: slashed(block), ...(except.length === 0 ? {} : { except }) };
}

/** With the length, also of a single address: `ipBlock.cidr` needs it. */
function slashed(cidr: Cidr): string {
  const text = formatCidr(cidr);
  return text.includes('/') ? text : `${text}/${cidr.length}`;
}
