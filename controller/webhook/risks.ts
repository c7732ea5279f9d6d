import { isDenial } from '../../apis/compiled.ts';
import type { Config, FailsafeEntry } from '../../apis/config.ts';
import { overlaps } from '../../apis/difference/service-space.ts';
import type {
  ClusterNetworkPolicy,
  ClusterObjects,
  Direction,
  NetworkPolicyPort,
  Node,
  Pod,
  Rule,
} from '../../apis/objects.ts';
import { entryText } from '../../apis/platform.ts';
import { KUBELET_ADVICE, namesNodesByLabels } from '../../apis/validate/kubelet-labels.ts';
import { namedPorts } from '../../apis/validate/service.ts';
import { isCovered, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { complement, type Range, unionRanges } from '../../lib/net/interval.ts';
import { directPeers, type FamilyOf } from '../compile/address-set.ts';
import { groupIndex, knownFamily } from '../index/name-index.ts';

/**
 * Whether the rule doesn't apply to traffic on the failsafe list: a Drop or Reject that names
 * neither ports, protocols nor Services.
 */
export function isSkippedByFailsafe({ action, ports, protocols, toServices }: Rule): boolean {
  const isOpen = !ports?.length && !protocols?.length && !toServices?.length;
  return isDenial(action) && isOpen;
}

/**
 * One warning for each direction: the rules that don't close the traffic on the failsafe list, and
 * that traffic.
 */
export function failsafeWarnings({ spec }: ClusterNetworkPolicy, failsafe: Config['failsafe']): string[] {
  if (spec.mode === 'Audit' || spec.traffic === 'NodePort') return [];
  return (['ingress', 'egress'] as const).flatMap((direction) => {
    const places = (spec[direction] ?? []).flatMap((rule, index) =>
      isSkippedByFailsafe(rule) ? [rulePath(direction, index)] : [],
    );
    if (places.length === 0 || failsafe[direction].length === 0) return [];
    const more = places.length > 5 ? ` and ${places.length - 5} more` : '';
    const [one, them] = places.length === 1 ? ['names', 'it does'] : ['name', 'they do'];
    return [
      `${places.slice(0, 5).join(', ')}${more}: ${one} no ports, so ${them} not close what the failsafe keeps open ` +
        `(${listed(failsafe[direction], direction)}); rules that name these ports do`,
    ];
  });
}

export function rulePath(direction: Direction, index: number): string {
  return `spec.${direction}[${index}]`;
}

/** `TCP 6443, TCP 2379-2380 from nodes; UDP 53 from any`. */
function listed(entries: readonly FailsafeEntry[], direction: Direction): string {
  const preposition = direction === 'ingress' ? 'from' : 'to';
  const byPeers = Map.groupBy(entries, ({ peers }) => (typeof peers === 'string' ? peers : peers.join(', ')));
  return [...byPeers]
    .map(([peers, of]) => `${[...new Set(of.map(entryText))].join(', ')} ${preposition} ${peers}`)
    .join('; ');
}

export const LAST_PORT = 65_535;
const EVERY_PORT: Range = [0, LAST_PORT];

/**
 * Warns about rules for egress that deny pods on TCP ports: the exemption of local pods does not
 * spare packets from them, so a Node's kubelet cannot probe its own pods there, and restarts them.
 * Ports that an earlier rule of the policy allows, or passes, to whichever peers, are taken as
 * thought of. A single address gives no warning: it need not be a pod's.
 */
export function closedProbeWarnings(
  { spec, apiGroup }: ClusterNetworkPolicy,
  { groups }: Pick<ClusterObjects, 'groups'>,
): string[] {
  const rules = spec.egress ?? [];
  if (spec.mode === 'Audit' || !rules.some(({ action }) => isDenial(action))) return [];
  const index = groupIndex(groups);
  const familyOf: FamilyOf = (name) => knownFamily(index, name, apiGroup);
  return rules.flatMap((rule, at) => {
    if (!isDenial(rule.action) || !selectsPods(rule, familyOf)) return [];
    const earlier = rules.slice(0, at).filter(({ action }) => action === 'Allow' || action === 'Pass');
    const open = complement(unionRanges(earlier.flatMap(tcpPorts)), LAST_PORT);
    if (!tcpPorts(rule).some((range) => overlaps(open, range))) return [];
    return [
      `${rulePath('egress', at)}: closes the kubelet's probes of these pods on these ports too, also to pods of the same ` +
        'Node, so pods with a probe there are restarted; allow the ports of probes in a rule before this one',
    ];
  });
}

function selectsPods({ to = [] }: Rule, familyOf: FamilyOf): boolean {
  return directPeers(to, familyOf).some(
    (peer) => !['ipBlock', 'nodeSelector', 'fqdn', 'interfaceGroup'].some((kind) => kind in peer),
  );
}

/** The TCP ports that a rule is for, from any source port. */
export function tcpPorts(rule: Rule): Range[] {
  const { ports = [], protocols = [], toServices = [] } = rule;
  if (ports.length + protocols.length + toServices.length === 0) return [EVERY_PORT];
  return namedPorts(rule).flatMap(portRange);
}

function portRange({ protocol = 'TCP', port, endPort = port, sourcePort }: NetworkPolicyPort): Range[] {
  if (protocol !== 'TCP' || sourcePort !== undefined) return [];
  return [port === undefined ? EVERY_PORT : [port, endPort ?? port]];
}

/**
 * Warns of Allow rules of ingress whose groups, or groups in these, name Nodes by labels that a
 * kubelet may write. Of rules that do so themselves the check of the policy warns.
 */
export function groupNodeWarnings(
  { spec, apiGroup }: ClusterNetworkPolicy,
  { groups }: Pick<ClusterObjects, 'groups'>,
): string[] {
  if (spec.mode === 'Audit' || groups.length === 0) return [];
  const index = groupIndex(groups);
  const familyOf: FamilyOf = (name) => knownFamily(index, name, apiGroup);
  return (spec.ingress ?? []).flatMap(({ action, from = [] }, at) => {
    const group = from.find(
      (peer) =>
        action === 'Allow' && 'group' in peer && directPeers([peer], familyOf).some(namesNodesByLabels),
    );
    if (group === undefined || !('group' in group)) return [];
    return [
      `${rulePath('ingress', at)}: a kubelet may write the labels by which ClusterGroup ${group.group} selects Nodes to ` +
        `its own Node, so any compromised node can use the rule; ${KUBELET_ADVICE}`,
    ];
  });
}

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
    directPeers(from, familyOf).some((peer) => 'podSelector' in peer || 'namespaceSelector' in peer)
      ? [rulePath('ingress', at)]
      : [],
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

/** So many ports in one range are not meant to name each of them. */
const WIDE = 1000;

/**
 * Warns about rules that deny any address and name so many ports that they close the failsafe
 * list's too: a rule without ports would not. Ports that an earlier rule of the policy allows, or
 * passes, to whichever peers, are taken as thought of.
 */
export function widePortWarnings({ spec }: ClusterNetworkPolicy, failsafe: Config['failsafe']): string[] {
  if (spec.mode === 'Audit' || spec.traffic === 'NodePort') return [];
  return (['ingress', 'egress'] as const).flatMap((direction) => {
    const rules = spec[direction] ?? [];
    return rules.flatMap((rule, index) => {
      if ((rule.action !== 'Drop' && rule.action !== 'Reject') || !isForAnybody(rule, direction)) return [];
      const earlier = rules.slice(0, index).filter(({ action }) => action === 'Allow' || action === 'Pass');
      const closed = failsafe[direction].filter(
        (entry) =>
          namedPorts(rule).some((item) => isWide(item) && meets(item, entry)) &&
          !earlier.some((one) => allows(one, entry)),
      );
      if (closed.length === 0) return [];
      const names = [...new Set(closed.map(entryText))].join(', ');
      return [
        `${rulePath(direction, index)}: names so many ports that it also closes ${names}, which the failsafe list would keep ` +
          'open if the rule named none; allow what you need of them in a rule before this one',
      ];
    });
  });
}

function isForAnybody(rule: Rule, direction: Direction): boolean {
  const peers = (direction === 'ingress' ? rule.from : rule.to) ?? [];
  return peers.length === 0 || peers.some((peer) => 'ipBlock' in peer && peer.ipBlock.cidr.endsWith('/0'));
}

function isWide({ port, endPort = port, sourcePort }: NetworkPolicyPort): boolean {
  return sourcePort === undefined && (port === undefined || (endPort ?? port) - port >= WIDE);
}

function meets(item: NetworkPolicyPort, { protocol, ports: [first, last] }: FailsafeEntry): boolean {
  const { port = 1, endPort = item.port ?? 65_535 } = item;
  return (item.protocol ?? 'TCP').toLowerCase() === protocol && port <= last && first <= endPort;
}

function allows(rule: Rule, entry: FailsafeEntry): boolean {
  if (!rule.ports?.length && !rule.protocols?.length) return true;
  return namedPorts(rule).some((item) => meets(item, entry));
}
