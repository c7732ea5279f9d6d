import type { CompiledRule, NodeState, ServiceSet } from '../../../apis/compiled.ts';
import { toMemberSet } from '../../../lib/net/member-set.ts';
import type { Peers } from './item.ts';

/** The addresses a rule applies to; null if an interface group may match any address. */
export function peersOf(
  { addressSets: [set], serviceSets: [services], interfaceGroups }: CompiledRule,
  state: Pick<NodeState, 'addressSets' | 'serviceSets'>,
  ofServices: (set: ServiceSet) => Peers,
): Peers | null {
  if (interfaceGroups.length > 0) return null;
  const addresses = set === undefined ? undefined : state.addressSets.get(set);
  if (addresses !== undefined) return { key: addresses.id, members: addresses.members };
  const members = services === undefined ? undefined : state.serviceSets.get(services);
  return members === undefined ? null : ofServices(members);
}

/** The addresses of the Services, whatever the port. */
export function servicePeers({ id, members }: ServiceSet): Peers {
  const addresses = new Set(members.map(({ address }) => address));
  return { key: `services ${id}`, members: toMemberSet([], addresses) };
}
