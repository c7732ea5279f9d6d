import { type Address, type Family, WIDTH } from '../../lib/net/address.ts';
import { packAddress } from '../../lib/net/member-set.ts';

export interface ChainVerdict {
  readonly kind: 'jump' | 'goto';
  readonly chain: string;
}

/**
 * The type of a map's keys. port: `inet_service`; address: `ipv4_addr` or `ipv6_addr`; mark:
 * `mark`, in the machine's byte order; addressMac: a concatenation of address and `ether_addr`, the
 * latter padded to 8 bytes; addressInnerMac: the same with the MAC of the frame in a VXLAN packet.
 */
export type MapKey = 'port' | 'address' | 'mark' | 'addressMac' | 'addressInnerMac';

/**
 * A named map from keys to verdicts. It is filled through netlink before it is used.
 *
 * A fixed map is named for its content, like a fixed chain, and never changed in place. All
 * interval maps are fixed, because lookups would miss for a moment a range that is replaced in
 * place. The elements of other maps change while in use, each from one verdict to the next at once.
 */
export interface VerdictMap {
  readonly name: string;
  readonly key: MapKey;
  /** The family of the addresses in the keys; null: there are none. */
  readonly family: Family | null;
  readonly interval: boolean;
  readonly fixed: boolean;
  /**
   * Packed as the kernel takes them, mapKeyLength bytes each, in network byte order; sorted,
   * unique. For an interval map: pairs of first and last key, sorted and disjoint.
   */
  readonly keys: Uint8Array;
  /** For each key or pair an index into `verdicts`. */
  readonly targets: Uint32Array;
  /** May contain duplicates. */
  readonly verdicts: readonly ChainVerdict[];
}

/** The length of one key in bytes. */
export function mapKeyLength({ key, family }: Pick<VerdictMap, 'key' | 'family'>): number {
  return OTHER_LENGTH[key] + (family === null ? 0 : WIDTH[family]);
}

/** The length of a key without its address. */
const OTHER_LENGTH: Readonly<Record<MapKey, number>> = {
  port: 2,
  address: 0,
  mark: 4,
  addressMac: 8,
  addressInnerMac: 8,
};

/**
 * Calls `entry` for each element, in order, with its key or first key, its last key (the same in a
 * hash map), and its verdict. Throws RangeError if an element has no verdict.
 */
export function eachEntry(
  map: VerdictMap,
  entry: (first: Uint8Array, last: Uint8Array, verdict: ChainVerdict) => void,
): void {
  const width = mapKeyLength(map);
  const step = map.interval ? 2 * width : width;
  for (const [i, target] of map.targets.entries()) {
    const first = map.keys.subarray(i * step, i * step + width);
    const last = map.interval ? map.keys.subarray(i * step + width, (i + 1) * step) : first;
    const verdict = map.verdicts[target];
    if (verdict === undefined) throw new RangeError(`map ${map.name}: no verdict ${target}`);
    entry(first, last, verdict);
  }
}

/** An element of a map: a key, or the first and last key of a range, packed. */
export interface MapEntry {
  readonly first: Uint8Array;
  readonly last?: Uint8Array;
  readonly verdict: ChainVerdict;
}

/** A map with these elements, in any order. They must be disjoint: the kernel refuses others. */
export function toVerdictMap(
  declared: Pick<VerdictMap, 'name' | 'key' | 'family' | 'interval' | 'fixed'>,
  entries: readonly MapEntry[],
): VerdictMap {
  const sorted = entries.toSorted((a, b) => Buffer.compare(a.first, b.first));
  const numbers = new Map<string, number>();
  const verdicts: ChainVerdict[] = [];
  const targets = Uint32Array.from(sorted, ({ verdict }) => {
    const text = `${verdict.kind} ${verdict.chain}`;
    const number = numbers.get(text) ?? verdicts.push(verdict) - 1;
    numbers.set(text, number);
    return number;
  });
  const keys = sorted.flatMap(({ first, last }) => (declared.interval ? [first, last ?? first] : [first]));
  return { ...declared, keys: Buffer.concat(keys), targets, verdicts };
}

/**
 * A key of an addressMac or addressInnerMac map.
 * @param mac six bytes in hexadecimal, separated by colons
 */
export function packAddressMac(address: Address, mac: string): Uint8Array {
  return Buffer.concat([packAddress(address), packMac(mac)]);
}

/**
 * A MAC address in a key, padded to 8 bytes.
 * @param mac six bytes in hexadecimal, separated by colons
 */
export function packMac(mac: string): Uint8Array {
  if (!MAC.test(mac)) throw new RangeError(`${JSON.stringify(mac)} is not a MAC address`);
  return Buffer.from(`${mac.replaceAll(':', '')}0000`, 'hex');
}

const MAC = /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/i;
