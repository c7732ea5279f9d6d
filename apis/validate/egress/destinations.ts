import { type Cidr, FAMILIES, type Family, parseCidr } from '../../../lib/net/address.ts';
import { type Interval, subtract, toInterval, union } from '../../../lib/net/interval.ts';
import { asList, type FieldMap } from '../../schema/json-schema.ts';
import { checkCidrs } from '../ipblock.ts';
import type { Findings } from '../problem.ts';

/** Checks `to` and `except` of a policy: their form, and whether they leave anything. */
export function checkDestinations({ to, except }: FieldMap, found: Findings): void {
  checkCidrs(to, ['spec', 'to'], found);
  checkCidrs(except, ['spec', 'except'], found);
  const inside = cidrsOf(to);
  const holes = cidrsOf(except);
  if (inside.length === 0 || holes.length === 0) return;
  const left = FAMILIES.flatMap((family) => subtract(rangesOf(inside, family), rangesOf(holes, family)));
  if (left.length === 0) {
    found.warning(['spec', 'except'], 'covers all of "to"; this policy matches no destination');
  }
}

function cidrsOf(list: unknown): Cidr[] {
  return asList(list).flatMap((text) => (typeof text === 'string' ? (parseCidr(text)?.cidr ?? []) : []));
}

/** The addresses of a family, as a union. */
function rangesOf(cidrs: readonly Cidr[], family: Family): Interval[] {
  return union(cidrs.filter((cidr) => cidr.family === family).map(toInterval));
}
