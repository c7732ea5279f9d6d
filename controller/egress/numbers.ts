import { MOST_SLOTS } from '../../apis/egress/node-egress.ts';
import { compareText } from '../../lib/sharing/lists.ts';
import { weight } from './rendezvous.ts';

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
