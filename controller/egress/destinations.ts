import type { EgressPolicy } from '../../apis/egress/objects.ts';
import { BITS, type Family } from '../../lib/net/address.ts';
import { type Interval, subtract } from '../../lib/net/interval.ts';
import { cidrIntervals } from './segments.ts';

export type DestinationIntervals = Readonly<Record<Family, readonly Interval[]>>;

/** The destinations that a policy names; without `to`, all: the inside is tested before. */
export function destinationsOf({ spec: { to, except } }: EgressPolicy): DestinationIntervals {
  const of = (family: Family): Interval[] => {
    const all = [{ first: 0n, last: (1n << BigInt(BITS[family])) - 1n }];
    const named = to === undefined || to.length === 0 ? all : cidrIntervals(to, family);
    return subtract(named, cidrIntervals(except, family));
  };
  return { 4: of(4), 6: of(6) };
}
