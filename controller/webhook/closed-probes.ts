import { overlaps } from '../../apis/difference/service-space.ts';
import type { ClusterNetworkPolicy, ClusterObjects, NetworkPolicyPort, Rule } from '../../apis/objects.ts';
import { complement, type Range, unionRanges } from '../../lib/net/interval.ts';
import { directPeers, type FamilyOf } from '../compile/peers.ts';
import { groupIndex, knownFamily } from '../index/group-index.ts';
import { rulePath } from './risks.ts';

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
  if (spec.mode === 'Audit' || !rules.some(denies)) return [];
  const index = groupIndex(groups);
  const familyOf: FamilyOf = (name) => knownFamily(index, name, apiGroup);
  return rules.flatMap((rule, at) => {
    if (!denies(rule) || !selectsPods(rule, familyOf)) return [];
    const earlier = rules.slice(0, at).filter(({ action }) => action === 'Allow' || action === 'Pass');
    const open = complement(unionRanges(earlier.flatMap(tcpPorts)), LAST_PORT);
    if (!tcpPorts(rule).some((range) => overlaps(open, range))) return [];
    return [
      `${rulePath('egress', at)}: closes the kubelet's probes of these pods on these ports too, also to pods of the same ` +
        'Node, so pods with a probe there are restarted; allow the ports of probes in a rule before this one',
    ];
  });
}

export function denies({ action }: Rule): boolean {
  return action === 'Drop' || action === 'Reject';
}

function selectsPods({ to = [] }: Rule, familyOf: FamilyOf): boolean {
  return directPeers(to, familyOf).some(
    (peer) => !['ipBlock', 'nodeSelector', 'fqdn', 'interfaceGroup'].some((kind) => kind in peer),
  );
}

/** The TCP ports that a rule is for, from any source port. */
export function tcpPorts({ ports = [], protocols = [], toServices = [] }: Rule): Range[] {
  if (ports.length === 0) return protocols.length + toServices.length === 0 ? [EVERY_PORT] : [];
  return ports.flatMap(portRange);
}

function portRange({ protocol = 'TCP', port, endPort = port, sourcePort }: NetworkPolicyPort): Range[] {
  if (protocol !== 'TCP' || sourcePort !== undefined) return [];
  return [port === undefined ? EVERY_PORT : [port, endPort ?? port]];
}
