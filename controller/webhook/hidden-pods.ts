import type { Config } from '../../apis/config.ts';
import type { ClusterNetworkPolicy, ClusterObjects, Node, Pod } from '../../apis/objects.ts';
import { isCovered, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { directPeers, type FamilyOf } from '../compile/peers.ts';
import { groupIndex, knownFamily } from '../index/group-index.ts';
import { rulePath } from './risks.ts';

/**
 * Finds the program that gives the packets of pods to other Nodes their own Node's address; null:
 * none that the objects and the configuration show.
 */
export function masquerader(
  { nodes, pods }: Pick<ClusterObjects, 'nodes' | 'pods'>,
  { enabled, except }: Config['masquerade'],
): string | null {
  const blocks = except.flatMap((text) => parseCidr(text)?.cidr ?? []);
  const isMasqueraded = ({ addresses }: Node): boolean =>
    addresses.flatMap((text) => parseAddress(text) ?? []).some((address) => !isCovered(blocks, address));
  if (enabled && nodes.length > 1 && nodes.some(isMasqueraded))
    return 'masquerade of the configuration, whose except does not have the Nodes,';
  return pods.some(isFlannel) ? 'flannel (unless it runs without --ip-masq)' : null;
}

/** As flannel's own manifest labels it. */
function isFlannel({ namespace, labels, hostNetwork }: Pod): boolean {
  return labels.app === 'flannel' && hostNetwork === true && FLANNEL.includes(namespace);
}

const FLANNEL = ['kube-flannel', 'kube-system'];

/**
 * Warns of rules for ingress whose peers are selectors of pods, where pods of other Nodes have
 * another address when rules see them. Not of service accounts: most of those that call Nodes are
 * of pods with their Node's network.
 *
 * @param by see `masquerader`
 */
export function hiddenPodWarnings(
  { spec, apiGroup }: ClusterNetworkPolicy,
  { groups }: Pick<ClusterObjects, 'groups'>,
  by: string | null,
): string[] {
  if (by === null || spec.mode === 'Audit') return [];
  const index = groupIndex(groups);
  const familyOf: FamilyOf = (name) => knownFamily(index, name, apiGroup);
  const places = (spec.ingress ?? []).flatMap(({ from = [] }, at) =>
    directPeers(from, familyOf).some(selectsPods) ? [rulePath('ingress', at)] : [],
  );
  const [first, ...more] = places;
  if (first === undefined) return [];
  const others =
    more.length === 0
      ? ''
      : ` (and so ${more.length === 1 ? 'does one rule' : `do ${more.length} rules`} more)`;
  return [
    `${first}: selects pods${others}, and ${by} gives packets of pods to other Nodes their own Node's address: only ` +
      'pods of the same Node match; for those of other Nodes name these by nodeSelector (docs/masquerade.md)',
  ];
}

function selectsPods(peer: object): boolean {
  return 'podSelector' in peer || 'namespaceSelector' in peer;
}
