import { type Address, type Family, WIDTH } from '../../lib/net/address.ts';
import { packAddress } from '../../lib/net/member-set.ts';
import { compareAt } from '../../lib/net/packed-keys.ts';
import { firstAt } from '../../lib/sharing/lists.ts';

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

/** Changes of a hash map's elements, in columns: 100,000 at once make no object each. */
export class MapChanges {
  readonly width: number;
  /** Packed, in the order of the calls. */
  #keys: Uint8Array;
  readonly #verdicts: (ChainVerdict | null)[] = [];

  /** @param width of a key in bytes */
  constructor(width: number) {
    this.width = width;
    this.#keys = new Uint8Array(16 * width);
  }

  get size(): number {
    return this.#verdicts.length;
  }

  get keys(): Uint8Array {
    return this.#keys;
  }

  /** Null: the element is removed. */
  verdict(index: number): ChainVerdict | null {
    return this.#verdicts[index] ?? null;
  }

  /** Adds a change; of changes of one key, the last counts. */
  push(address: Uint8Array, rest: Uint8Array, verdict: ChainVerdict | null): void {
    const at = this.size * this.width;
    if (at === this.#keys.length) {
      const larger = new Uint8Array(2 * at);
      larger.set(this.#keys);
      this.#keys = larger;
    }
    this.#keys.set(address, at);
    this.#keys.set(rest, at + address.length);
    this.#verdicts.push(verdict);
  }

  /** The indexes of the changes that count, in the order of their keys. */
  order(): Uint32Array {
    const { width } = this;
    const keys = this.#keys;
    const all = Uint32Array.from(this.#verdicts.keys());
    // Stable: of one key, the last change stays the last.
    all.sort((a, b) => compareAt(keys, a * width, keys, b * width, width));
    return all.filter((i, nth) => {
      const next = all[nth + 1];
      return next === undefined || compareAt(keys, i * width, keys, next * width, width) !== 0;
    });
  }
}

/**
 * The hash map with these changes; itself if there are none. Costs a copy of the memory, and a
 * search for each change.
 */
export function changeEntries(map: VerdictMap, changes: MapChanges): VerdictMap {
  if (changes.size === 0) return map;
  const width = mapKeyLength(map);
  const numbers = new VerdictNumbers(map.verdicts);
  // Not filled with zeros: each byte is written below.
  const keys = unfilled(map.keys.length + changes.size * width);
  const targets = new Uint32Array(unfilled(4 * (map.targets.length + changes.size)).buffer);
  let [from, to] = [0, 0];
  const copy = (end: number): void => {
    if (end === from) return;
    keys.set(map.keys.subarray(from * width, end * width), to * width);
    targets.set(map.targets.subarray(from, end), to);
    to += end - from;
    from = end;
  };
  let isLess = false;
  for (const i of changes.order()) {
    const begin = i * width;
    const order = (place: number): number => compareAt(map.keys, place * width, changes.keys, begin, width);
    copy(firstAt(from, map.targets.length, (place) => order(place) >= 0));
    const isThere = from < map.targets.length && order(from) === 0;
    if (isThere) from++;
    isLess ||= isThere;
    const verdict = changes.verdict(i);
    if (verdict === null) continue;
    for (let byte = 0; byte < width; byte++) keys[to * width + byte] = changes.keys[begin + byte] as number;
    targets[to++] = numbers.of(verdict);
  }
  copy(map.targets.length);
  const now = { targets: targets.subarray(0, to), verdicts: numbers.verdicts };
  return { ...map, keys: keys.subarray(0, to * width), ...(isLess ? withoutUnused(now) : now) };
}

function unfilled(length: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.allocUnsafeSlow(length).buffer as ArrayBuffer);
}

/** Verdicts and their indexes; equal ones have one. */
class VerdictNumbers {
  readonly verdicts: ChainVerdict[];
  readonly #byText: Map<string, number>;
  readonly #known = new Map<ChainVerdict, number>();

  constructor(verdicts: readonly ChainVerdict[]) {
    this.verdicts = [...verdicts];
    this.#byText = new Map(verdicts.map(({ kind, chain }, i) => [`${kind} ${chain}`, i]));
  }

  of(verdict: ChainVerdict): number {
    const known = this.#known.get(verdict);
    if (known !== undefined) return known;
    const text = `${verdict.kind} ${verdict.chain}`;
    const number = this.#byText.get(text) ?? this.verdicts.push(verdict) - 1;
    this.#byText.set(text, number);
    this.#known.set(verdict, number);
    return number;
  }
}

/** Without the verdicts that no element has. */
function withoutUnused({
  targets,
  verdicts,
}: Pick<VerdictMap, 'targets' | 'verdicts'>): Pick<VerdictMap, 'targets' | 'verdicts'> {
  const used = new Uint8Array(verdicts.length);
  for (let i = 0; i < targets.length; i++) used[targets[i] ?? 0] = 1;
  if (used.every((one) => one === 1)) return { targets, verdicts };
  let next = 0;
  const numbers = Uint32Array.from(used, (one) => (one === 1 ? next++ : 0));
  return {
    targets: targets.map((target) => numbers[target] ?? 0),
    verdicts: verdicts.filter((_, i) => used[i] === 1),
  };
}
