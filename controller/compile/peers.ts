import type {
  AppliedTo,
  ClusterGroup,
  ClusterGroupSpec,
  LabelSelector,
  NamespacedName,
  NetworkPolicyPeer,
} from '../../apis/objects.ts';

/**
 * A peer that stands for addresses directly: one listed by a rule, or one from a ClusterGroup that
 * the rule names. Exactly one kind of peer is set, as in NetworkPolicyPeer.
 */
export interface AddressPeer extends Omit<NetworkPolicyPeer, 'group' | 'interfaceGroup'> {
  readonly serviceReference?: NamespacedName;
}

/** Finds the ClusterGroup of a name as the policy resolves it, and its childGroups. */
export type FamilyOf = (name: string) => readonly ClusterGroup[];

/**
 * The peers that have addresses, with groups replaced by their content: a rule compiles to the same
 * result with a group as without.
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

/** The selectors of the Nodes that an appliedTo list selects. */
export function nodeSelectors(appliedTo: readonly AppliedTo[], familyOf: FamilyOf): LabelSelector[] {
  return appliedTo.flatMap(({ nodeSelector, group }) => {
    if (group === undefined) return nodeSelector ?? [];
    return familyOf(group).flatMap(({ spec }) => spec.nodeSelector ?? []);
  });
}
