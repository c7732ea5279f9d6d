import type { Config, FailsafeEntry } from '../../apis/config.ts';
import type { ClusterNetworkPolicy, Direction, NetworkPolicyPort, Rule } from '../../apis/objects.ts';
import { portsOf, rulePath } from './risks.ts';

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
          (rule.ports ?? []).some((item) => isWide(item) && overlaps(item, entry)) &&
          !earlier.some((one) => allows(one, entry)),
      );
      if (closed.length === 0) return [];
      const names = [...new Set(closed.map(portsOf))].join(', ');
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

function overlaps(item: NetworkPolicyPort, { protocol, ports: [first, last] }: FailsafeEntry): boolean {
  const { port = 1, endPort = item.port ?? 65_535 } = item;
  return (item.protocol ?? 'TCP').toLowerCase() === protocol && port <= last && first <= endPort;
}

function allows(rule: Rule, entry: FailsafeEntry): boolean {
  if (!rule.ports?.length) return !rule.protocols?.length;
  return rule.ports.some((item) => overlaps(item, entry));
}
