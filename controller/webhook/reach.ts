import type { Service } from '../../apis/compiled.ts';
import type {
  ApiGroup,
  ClusterNetworkPolicySpec,
  Direction,
  LabelSelector,
  Rule,
} from '../../apis/objects.ts';
import { directPeers, type FamilyOf, nodeSelectors } from '../compile/peers.ts';
import { toServices } from '../compile/services.ts';
import { type GroupIndex, groupFamily } from '../index/group-index.ts';
import { type Peers, peersCover, selectorsCover, servicesCover } from './cover.ts';

/** The traffic that a rule matches, and the Nodes it applies to, from the text alone. */
export interface Reach {
  readonly nodes: readonly LabelSelector[];
  readonly peers: Peers;
  readonly services: readonly Service[];
  /** `namespace/name` of each; empty if the rule has no toServices. */
  readonly toServices: readonly string[];
}

/** Throws if a group doesn't exist, which can't happen for a valid policy. */
export function reachOf(
  rule: Rule,
  spec: ClusterNetworkPolicySpec,
  direction: Direction,
  lookup: { readonly groups: GroupIndex; readonly apiGroup: ApiGroup },
): Reach {
  const familyOf: FamilyOf = (name) => groupFamily(lookup.groups, name, lookup.apiGroup);
  const listed = (direction === 'ingress' ? rule.from : rule.to) ?? [];
  return {
    nodes: nodeSelectors(spec.appliedTo ?? rule.appliedTo ?? [], familyOf),
    peers: listed.length === 0 ? null : directPeers(listed, familyOf),
    services: toServices(rule),
    toServices: (rule.toServices ?? []).map(({ namespace, name }) => `${namespace}/${name}`),
  };
}

export function reachCovers(wide: Reach, narrow: Reach): boolean {
  return (
    servicesCover(wide.services, narrow.services) &&
    toServicesCover(wide, narrow) &&
    peersCover(wide.peers, narrow.peers) &&
    selectorsCover(wide.nodes, narrow.nodes)
  );
}

/**
 * The endpoints of a Service are not known here: it is covered only by all traffic, or by the same
 * Service.
 */
function toServicesCover(wide: Reach, narrow: Reach): boolean {
  if (wide.toServices.length > 0) {
    return narrow.toServices.length > 0 && narrow.toServices.every((name) => wide.toServices.includes(name));
  }
  return narrow.toServices.length === 0 || (wide.services.length === 0 && peersCover(wide.peers, null));
}
