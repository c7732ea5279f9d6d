import { type ChainVerdict, eachEntry, type VerdictMap } from '../../agent/render/verdict-map.ts';
import { unpackMachine32 } from '../../lib/net/bytes.ts';

/**
 * One element of a verdict map, decoded: a port, a mark or the value of an address, the first and
 * the last of a range; of an address with a MAC the bytes as they stand.
 */
export interface Element {
  readonly first: bigint;
  readonly last: bigint;
  readonly verdict: ChainVerdict;
}

/** The elements of a map, in its order, whatever they are. */
export function elementsOf(map: VerdictMap): Element[] {
  const elements: Element[] = [];
  eachEntry(map, (first, last, verdict) => {
    const value = map.key === 'mark' ? (key: Uint8Array) => BigInt(unpackMachine32(key)) : toValue;
    elements.push({ first: value(first), last: value(last), verdict });
  });
  return elements;
}

/** A key in network byte order. */
function toValue(packed: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(packed).toString('hex')}`);
}

/** Looks one key up; null where the map doesn't have it. */
export type LookUp = (key: bigint) => ChainVerdict | null;

/**
 * What the kernel does with a map. Throws on elements that overlap: the kernel refuses them
 * (-EEXIST), or, where both are in one transaction, finds either.
 */
export function lookUpIn(map: VerdictMap): LookUp {
  const sorted = elementsOf(map).sort((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0));
  for (const [i, { first, last }] of sorted.entries()) {
    const before = sorted[i - 1];
    if (last < first) throw new Error(`${map.name}: ${first}-${last} is no range`);
    if (before !== undefined && before.last >= first)
      throw new Error(`${map.name}: overlapping keys ${first}`);
  }
  if (!map.interval) {
    const verdicts = new Map(sorted.map(({ first, verdict }) => [first, verdict]));
    return (key) => verdicts.get(key) ?? null;
  }
  return (key) => {
    const at = sorted.findLast(({ first }) => first <= key);
    return at !== undefined && key <= at.last ? at.verdict : null;
  };
}
