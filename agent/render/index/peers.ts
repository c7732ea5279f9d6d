import type { CompiledRule, NodeState, ServiceSet } from '../../../apis/compiled.ts';
import { toMemberSet } from '../../../lib/net/member-set.ts';
import type { Peers } from './match-entry.ts';

/** The addresses a rule applies to; null if an interface group may match any address. */
export function peersOf(
  { addressSets: [set], serviceSets: [services], interfaceGroups }: CompiledRule,
  state: Pick<NodeState, 'addressSets' | 'serviceSets'>,
): Peers | null {
  if (interfaceGroups.length > 0) return null;
  const addresses = set === undefined ? undefined : state.addressSets.get(set);
  if (addresses !== undefined) return { key: addresses.id, members: addresses.members };
  const members = services === undefined ? undefined : state.serviceSets.get(services);
  return members === undefined ? null : servicePeers(members);
}

const known = new WeakMap<ServiceSet, Peers>();

/** The addresses of the Services, whatever the port. */
function servicePeers(set: ServiceSet): Peers {
  let peers = known.get(set);
  if (peers === undefined) {
    const addresses = new Set(set.members.map(({ address }) => address));
    peers = { key: `services ${set.id}`, members: toMemberSet([], addresses) };
    known.set(set, peers);
  }
  return peers;
}
