import { isDeepStrictEqual } from 'node:util';
import type { EgressGateway, EgressPolicy } from '../../../apis/egress/objects.ts';
import { identityOf } from '../../../apis/validate/metadata.ts';
import { listChange } from '../../../lib/sharing/lists.ts';

/** The lists that egressProblems reads and that have statuses. */
export interface StatusLists {
  readonly egressGateways: readonly EgressGateway[];
  readonly egressPolicies: readonly EgressPolicy[];
}

/**
 * Whether two states differ at most in what egressProblems does not read. The statuses of thousands
 * of policies are written one after another, and must not cost a pass over all pods each.
 */
export function isSameForChecks(before: StatusLists, now: StatusLists): boolean {
  const named = fixedAddresses(now.egressPolicies);
  return (
    isSame(before.egressGateways, now.egressGateways, ({ spec }) => spec) &&
    isSame(before.egressPolicies, now.egressPolicies, ({ spec, status }) => {
      // An address in a status matters where another policy names it.
      return [spec, status?.addresses.filter((address) => named.has(address)) ?? []];
    })
  );
}

function fixedAddresses(policies: readonly EgressPolicy[]): ReadonlySet<string> {
  return new Set(policies.flatMap(({ spec }) => Object.values(spec.address.fixed)));
}

function isSame<T extends EgressGateway | EgressPolicy>(
  before: readonly T[],
  now: readonly T[],
  readOf: (object: T) => unknown,
): boolean {
  const { removed, added } = listChange(before, now);
  if (removed.length !== added.length) return false;
  const last = new Map(removed.map((object) => [identityOf(object), object]));
  return added.every((object) => {
    const was = last.get(identityOf(object));
    return was !== undefined && isDeepStrictEqual(readOf(was), readOf(object));
  });
}
