import { compareAt } from '../../lib/net/packed-keys.ts';
import { firstAt } from '../../lib/sharing/order.ts';
import { type ChainVerdict, mapKeyLength, type VerdictMap } from './verdict-map.ts';

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
