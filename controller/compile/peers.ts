import type {
  AppliedTo,
  ClusterGroup,
  ClusterGroupSpec,
  LabelSelector,
  NamespacedName,
  NetworkPolicyPeer,
} from '../../apis/objects.ts';

/**
 * A peer that stands for addresses by itself: what a rule lists, or what a ClusterGroup that it
 * names holds. Exactly one kind, as there.
 */
export interface AddressPeer extends Omit<NetworkPolicyPeer, 'group' | 'interfaceGroup'> {
  readonly serviceReference?: NamespacedName;
}

/** The ClusterGroup of a name as the policy sees it, and its childGroups. */
export type FamilyOf = (name: string) => readonly ClusterGroup[];

/**
 * The peers with addresses, groups replaced by what they hold: a rule says the same with a group as
 * without.
 */
export function addressPeers(peers: readonly NetworkPolicyPeer[], familyOf: FamilyOf): AddressPeer[] {
  return peers.flatMap(({ group, interfaceGroup, ...peer }): readonly AddressPeer[] => {
    if (interfaceGroup !== undefined) return [];
    return group === undefined ? [peer] : familyOf(group).flatMap(({ spec }) => groupPeers(spec));
  });
}

function groupPeers(spec: ClusterGroupSpec): AddressPeer[] {
  const { ipBlocks = [], childGroups: _, ...selector } = spec;
  const blocks = ipBlocks.map((ipBlock) => ({ ipBlock }));
  return Object.keys(selector).length === 0 ? blocks : [...blocks, selector];
}

/** The link groups among the peers, unique, numbers first. */
export function interfaceGroups(peers: readonly NetworkPolicyPeer[]): (string | number)[] {
  const groups = [...new Set(peers.flatMap(({ interfaceGroup }) => interfaceGroup ?? []))];
  const numbers = groups.filter((group) => typeof group === 'number').sort((a, b) => a - b);
  return [...numbers, ...groups.filter((group) => typeof group === 'string').sort()];
}

/** The selectors of the Nodes that an appliedTo list stands for. */
export function nodeSelectors(appliedTo: readonly AppliedTo[], familyOf: FamilyOf): LabelSelector[] {
  return appliedTo.flatMap(({ nodeSelector, group }) => {
    if (group === undefined) return nodeSelector ?? [];
    return familyOf(group).flatMap(({ spec }) => spec.nodeSelector ?? []);
  });
}
