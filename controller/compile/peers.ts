import type {
  AppliedTo,
  ClusterGroup,
  ClusterGroupSpec,
  LabelSelector,
  NamespacedName,
  NetworkPolicyPeer,
} from '../../apis/objects.ts';
import { BITS, parseCidr } from '../../lib/net/address.ts';

/** A peer listed by a rule, or one from a ClusterGroup that the rule names. */
export type DirectPeer =
  | Exclude<NetworkPolicyPeer, { readonly group: string }>
  | { readonly serviceReference: NamespacedName };

/** A peer that stands for addresses. */
export type AddressPeer = Exclude<DirectPeer, { readonly interfaceGroup: unknown }>;

/** Finds the ClusterGroup of a name as the policy resolves it, and its childGroups. */
export type FamilyOf = (name: string) => readonly ClusterGroup[];

/**
 * The peers with groups replaced by their content: a rule compiles to the same result with a group
 * as without.
 */
export function directPeers(peers: readonly NetworkPolicyPeer[], familyOf: FamilyOf): DirectPeer[] {
  return peers.flatMap((peer): DirectPeer[] => {
    return 'group' in peer ? familyOf(peer.group).flatMap(({ spec }) => groupPeers(spec)) : [peer];
  });
}

export function addressPeers(peers: readonly NetworkPolicyPeer[], familyOf: FamilyOf): AddressPeer[] {
  return directPeers(peers, familyOf).flatMap((peer) => ('interfaceGroup' in peer ? [] : peer));
}

/**
 * Whether a rule with these peers names pods: one is a selector of pods, a service account, the
 * pods of a Service, or a single address, which may be a pod's.
 */
export function namesPods(peers: readonly NetworkPolicyPeer[], familyOf: FamilyOf): boolean {
  return directPeers(peers, familyOf).some((peer) => {
    if ('ipBlock' in peer) {
      const cidr = parseCidr(peer.ipBlock.cidr)?.cidr;
      return cidr !== undefined && cidr.length === BITS[cidr.family];
    }
    return !('nodeSelector' in peer || 'fqdn' in peer || 'interfaceGroup' in peer);
  });
}

function groupPeers(spec: ClusterGroupSpec): AddressPeer[] {
  const { ipBlocks = [], childGroups: _, nodeSelector, serviceReference, ...pods } = spec;
  if (nodeSelector !== undefined) return [{ nodeSelector }];
  if (serviceReference !== undefined) return [{ serviceReference }];
  return Object.keys(pods).length === 0 ? ipBlocks.map((ipBlock) => ({ ipBlock })) : [pods];
}

/** The link groups among the peers, unique, numbers first. */
export function peerInterfaceGroups(peers: readonly NetworkPolicyPeer[]): (string | number)[] {
  const groups = [...new Set(peers.flatMap((peer) => ('interfaceGroup' in peer ? peer.interfaceGroup : [])))];
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
