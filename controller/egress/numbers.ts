import { MOST_SLOTS } from '../../apis/egress/node-egress.ts';
import { compareText } from './order.ts';
import { weight } from './rendezvous.ts';

/**
 * Numbers the keys from 1 to MOST_SLOTS. A key keeps the number that it has: marks of established
 * connections hold it. A new key gets one by its hash, so that it mostly is the same after a
 * restart. Keys for which none is left are missing.
 */
export function numbered(keys: Iterable<string>, before: ReadonlyMap<string, number>): Map<string, number> {
  const wanted = [...new Set(keys)].sort(compareText);
  const numbers = new Map<string, number>();
  for (const key of wanted) {
    const kept = before.get(key);
    if (kept !== undefined) numbers.set(key, kept);
  }
  const used = new Set(numbers.values());
  for (const key of wanted) {
    if (numbers.has(key) || used.size === MOST_SLOTS) continue;
    let number = (weight(key) % MOST_SLOTS) + 1;
    while (used.has(number)) number = (number % MOST_SLOTS) + 1;
    used.add(number);
    numbers.set(key, number);
  }
  return numbers;
}
