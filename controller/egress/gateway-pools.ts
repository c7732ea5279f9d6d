import { isDeepStrictEqual } from 'node:util';
import type { OwnedAddress } from '../../apis/egress/node-egress.ts';
import { type MemberSet, NO_MEMBERS, toMemberSet } from '../../lib/net/member-set.ts';
import { addToList } from '../../lib/sharing/list-map.ts';
import { sameItems } from '../../lib/sharing/same-items.ts';
import type { Allocation } from './allocation.ts';
import { poolCidrs, toPool } from './pool.ts';

/** The part of a gateway node that only its gateways decide. */
export interface GatewayPools {
  readonly allocations: readonly Allocation[];
  readonly ranges: readonly string[];
  readonly floating: MemberSet;
  readonly owned: readonly OwnedAddress[];
}

export const NO_POOLS: GatewayPools = { allocations: [], ranges: [], floating: NO_MEMBERS, owned: [] };

/**
 * For each candidate of floating gateways: their addresses, and those that it owns. Equal parts are
 * those of `before`.
 */
export function gatewayPools(
  allocations: readonly Allocation[],
  before: ReadonlyMap<string, GatewayPools>,
): Map<string, GatewayPools> {
  const byNode = new Map<string, Allocation[]>();
  for (const allocation of allocations) {
    if (allocation.gateway.spec.source !== 'Floating') continue;
    for (const { name } of allocation.candidates) addToList(byNode, name, allocation);
  }
  return new Map(
    [...byNode].map(([node, own]) => {
      const known = before.get(node) ?? NO_POOLS;
      return [node, sameItems(known.allocations, own) ? known : nodePools(node, own, known)];
    }),
  );
}

function nodePools(node: string, allocations: readonly Allocation[], before: GatewayPools): GatewayPools {
  const ranges = allocations.flatMap(({ gateway }) => gateway.spec.ranges);
  const blocks = () => poolCidrs(toPool(ranges)).map((cidr) => ({ cidr, except: [] }));
  const owned = allocations.flatMap(({ gateway, slots }) =>
    slots
      .filter((slot) => slot.node === node)
      .flatMap(({ addresses }) => addresses)
      .map((address) => ({ address, announce: gateway.spec.announce })),
  );
  return {
    allocations,
    ranges,
    floating: sameItems(ranges, before.ranges) ? before.floating : toMemberSet(blocks(), []),
    owned: isDeepStrictEqual(owned, before.owned) ? before.owned : owned,
  };
}
