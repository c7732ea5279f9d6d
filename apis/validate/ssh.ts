import type { FailsafeEntry } from '../config.ts';
import type { ClusterNetworkPolicySpec, NetworkPolicyPeer, Rule } from '../objects.ts';
import type { Findings } from './problem.ts';

const SSH = 22;

/**
 * Warns if a policy's blanket Drop or Reject closes SSH for all peers: the rule names no ports or
 * protocols and matches any address, no earlier rule of the policy allows or passes SSH, and the
 * failsafe list does not cover it.
 */
export function checkSsh(
  spec: ClusterNetworkPolicySpec,
  failsafe: readonly FailsafeEntry[],
  found: Findings,
): void {
  // Neither kind of policy decides about connections to port 22 of the Node itself.
  if (spec.mode === 'Audit' || spec.traffic === 'NodePort') return;
  if (
    failsafe.some(({ protocol, ports: [first, last] }) => protocol === 'tcp' && first <= SSH && SSH <= last)
  )
    return;
  for (const [index, rule] of (spec.ingress ?? []).entries()) {
    if (allowsSsh(rule)) return;
    if (!isBlanket(rule)) continue;
    found.warning(
      ['spec', 'ingress', index],
      `closes SSH (TCP port 22) too; to keep it open add {protocol: TCP, port: 22, peers: [your CIDRs]} to failsafe.ingress ` +
        'of the configuration, or allow it in a rule before this one',
    );
    return;
  }
}

function isBlanket(rule: Rule): boolean {
  return (
    (rule.action === 'Drop' || rule.action === 'Reject') &&
    namesNoService(rule) &&
    (rule.from ?? [{}]).some(isAnybody)
  );
}

function isAnybody(peer: NetworkPolicyPeer): boolean {
  return 'ipBlock' in peer ? peer.ipBlock.cidr.endsWith('/0') : Object.keys(peer).length === 0;
}

function allowsSsh(rule: Rule): boolean {
  if (rule.action !== 'Allow' && rule.action !== 'Pass') return false;
  if (namesNoService(rule)) return true;
  return (rule.ports ?? []).some(({ protocol = 'TCP', port, endPort = port }) => {
    return protocol === 'TCP' && (port ?? 1) <= SSH && SSH <= (endPort ?? 65535);
  });
}

function namesNoService(rule: Rule): boolean {
  return (rule.ports ?? []).length === 0 && (rule.protocols ?? []).length === 0;
}
