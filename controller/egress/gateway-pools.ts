import { isDeepStrictEqual } from 'node:util';
import { type Candidacy, leaseName, type OwnedSlot } from '../../apis/egress/node-egress.ts';
import { poolCidrs, toPool } from '../../lib/net/address-pool.ts';
import { type MemberSet, NO_MEMBERS, toMemberSet } from '../../lib/net/member-set.ts';
import { addToList, compareText, sameItems } from '../../lib/sharing/lists.ts';
import type { Allocation } from './allocation.ts';

/** The part of a gateway node that only its gateways decide. */
export interface GatewayPools {
  readonly allocations: readonly Allocation[];
  readonly ranges: readonly string[];
  readonly floating: MemberSet;
  readonly owned: readonly OwnedSlot[];
  readonly candidacies: readonly Candidacy[];
}

export const NO_POOLS: GatewayPools = {
  allocations: [],
  ranges: [],
  floating: NO_MEMBERS,
  owned: [],
  candidacies: [],
};

/**
 * For each candidate: its gateways, their floating addresses, and the slots that it owns. Equal
 * parts are those of `before`.
 */
export function gatewayPools(
  allocations: readonly Allocation[],
  before: ReadonlyMap<string, GatewayPools>,
): Map<string, GatewayPools> {
  const byNode = new Map<string, Allocation[]>();
  for (const allocation of allocations) {
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
  const ranges = allocations.flatMap(({ gateway: { spec } }) =>
    spec.source === 'Floating' ? spec.ranges : [],
  );
  const blocks = () => poolCidrs(toPool(ranges)).map((cidr) => ({ cidr, except: [] }));
  const like = <T>(now: readonly T[], was: readonly T[]): readonly T[] =>
    isDeepStrictEqual(now, was) ? was : now;
  const byName = allocations.toSorted((a, b) => compareText(leaseName(a.gateway), leaseName(b.gateway)));
  const candidacies = byName.map(({ gateway }): Candidacy => {
    const { source, failover, probes } = gateway.spec;
    const { heartbeatMilliseconds } = failover;
    return { gateway: leaseName(gateway), source, heartbeatMilliseconds, probes };
  });
  return {
    allocations,
    ranges,
    floating: sameItems(ranges, before.ranges) ? before.floating : toMemberSet(blocks(), []),
    owned: like(
      byName.flatMap((allocation) => ownedSlots(node, allocation)),
      before.owned,
    ),
    candidacies: like(candidacies, before.candidacies),
  };
}

function ownedSlots(node: string, { gateway, slots }: Allocation): OwnedSlot[] {
  const { announce, failover } = gateway.spec;
  return slots
    .filter((slot) => slot.node === node && slot.addresses.length > 0)
    .toSorted((a, b) => compareText(a.name, b.name))
    .map(({ name, epoch, addresses }) => ({
      gateway: leaseName(gateway),
      slot: name,
      epoch,
      addresses,
      announce,
      leaseMilliseconds: failover.leaseSeconds * 1000,
    }));
}
