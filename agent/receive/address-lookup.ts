import { type LookupAddress, lookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import type { Clock } from '../../lib/process/clock.ts';

/**
 * Milliseconds. If the cluster's DNS is unreachable, getaddrinfo(3) fails only after 10 s for each
 * search domain.
 */
const PATIENCE = 2_000;

/**
 * Resolves names for node:net like the system. If that fails, or takes more than two seconds,
 * answers with the last known addresses of the name, if there are any: the agent must find its
 * controller while the cluster's DNS is unreachable.
 */
export function lookupOrLast(
  last: () => readonly string[],
  clock: Clock,
  resolve: typeof lookup = lookup,
): LookupFunction {
  return (hostname, options, callback) => {
    let isAnswered = false;
    const answer = (error: NodeJS.ErrnoException | null, found: readonly LookupAddress[]): void => {
      if (isAnswered) return;
      isAnswered = true;
      cancel();
      const [first] = found;
      if (options.all === true) callback(error, [...found]);
      else callback(error, first?.address ?? '', first?.family);
    };
    const remembered = (): LookupAddress[] => {
      const { family } = options;
      const known = last().map((address) => ({ address, family: isIP(address) }));
      return known.filter((one) => family === undefined || family === 0 || family === one.family);
    };
    const cancel = clock.after(PATIENCE, () => {
      const known = remembered();
      if (known.length > 0) answer(null, known);
    });
    resolve(hostname, { ...options, all: true }, (error, found) => {
      const known = error === null ? [] : remembered();
      if (error === null) answer(null, found);
      else answer(known.length > 0 ? null : error, known);
    });
  };
}
