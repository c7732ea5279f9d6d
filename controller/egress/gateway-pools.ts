import type { OwnedAddress } from '../../apis/egress/node-egress.ts';
import { type MemberSet, NO_MEMBERS, toMemberSet } from '../../lib/net/member-set.ts';
import { addToList } from '../../lib/sharing/list-map.ts';
import type { Allocation } from './allocation.ts';
import type { CompiledEgress } from './compile-egress.ts';
import { poolCidrs } from './pool.ts';

/** The part of a gateway node that only its gateways decide. */
export interface GatewayPools {
  readonly floating: MemberSet;
  readonly owned: readonly OwnedAddress[];
}

export const NO_POOLS: GatewayPools = { floating: NO_MEMBERS, owned: [] };

/** For each candidate of floating gateways: their addresses, and those that it owns. */
export function gatewayPools({ allocations }: CompiledEgress): Map<string, GatewayPools> {
  const byNode = new Map<string, Allocation[]>();
  for (const allocation of allocations) {
    if (allocation.gateway.spec.source !== 'Floating') continue;
    for (const { name } of allocation.candidates) addToList(byNode, name, allocation);
  }
  const members = new Map<string, MemberSet>();
  const floatingOf = (some: readonly Allocation[]): MemberSet => {
    const key = some.map(({ gateway }) => `${gateway.apiGroup}/${gateway.name}`).join();
    const blocks = some.flatMap(({ pool }) => poolCidrs(pool)).map((cidr) => ({ cidr, except: [] }));
    const known = members.get(key) ?? toMemberSet(blocks, []);
    members.set(key, known);
    return known;
  };
  const ownedBy = (node: string, some: readonly Allocation[]): OwnedAddress[] =>
    some.flatMap(({ gateway, slots }) =>
      slots
        .filter((slot) => slot.node === node)
        .flatMap(({ addresses }) => addresses)
        .map((address) => ({ address, announce: gateway.spec.announce })),
    );
  return new Map(
    [...byNode].map(([node, some]) => [node, { floating: floatingOf(some), owned: ownedBy(node, some) }]),
  );
}
