import { MOST_SLOTS } from '../../apis/egress/node-egress.ts';
import { compareText } from '../../lib/sharing/lists.ts';

/** The item with the highest weight for a key, so that few keys move when an item comes or goes. */
export function rendezvous<T>(key: string, items: readonly T[], nameOf: (item: T) => string): T | undefined {
  let best: T | undefined;
  let most = -1;
  for (const item of items) {
    const own = weight(`${key}\n${nameOf(item)}`);
    if (own <= most) continue;
    best = item;
    most = own;
  }
  return best;
}

/** All items, the one with the highest weight first. */
export function byRendezvous<T>(key: string, items: readonly T[], nameOf: (item: T) => string): T[] {
  const weighed = items.map((item) => ({ item, own: weight(`${key}\n${nameOf(item)}`) }));
  return weighed.sort((a, b) => b.own - a.own).map(({ item }) => item);
}

/** FNV-1a, then the last step of MurmurHash3, without which like texts have like weights. */
function weight(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/**
 * Numbers the keys from 1 to MOST_SLOTS. A key keeps the number that it has: marks of established
 * connections hold it. A new key gets one by its hash, so that it mostly is the same after a
 * restart. Keys for which none is left are missing.
 *
 * @param first those that may take the number of another key; default: none
 */
export function numbered(
  keys: Iterable<string>,
  before: ReadonlyMap<string, number>,
  first: ReadonlySet<string> = new Set(),
): Map<string, number> {
  const wanted = [...new Set(keys)].sort(compareText);
  const numbers = new Map<string, number>();
  for (const key of wanted) {
    const kept = before.get(key);
    if (kept !== undefined) numbers.set(key, kept);
  }
  const used = new Set(numbers.values());
  const others = wanted.filter((key) => !first.has(key));
  for (const key of [...wanted.filter((one) => first.has(one)), ...others]) {
    if (numbers.has(key)) continue;
    if (used.size === MOST_SLOTS && !(first.has(key) && release(others))) continue;
    let number = (weight(key) % MOST_SLOTS) + 1;
    while (used.has(number)) number = (number % MOST_SLOTS) + 1;
    used.add(number);
    numbers.set(key, number);
  }
  return numbers;

  function release(from: readonly string[]): boolean {
    const last = from.findLast((key) => numbers.has(key));
    const number = last === undefined ? undefined : numbers.get(last);
    if (last === undefined || number === undefined) return false;
    used.delete(number);
    return numbers.delete(last);
  }
}
