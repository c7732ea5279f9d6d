import type { Config, FailsafeEntry } from '../../apis/config.ts';
import type { ClusterNetworkPolicy, Direction, Rule } from '../../apis/objects.ts';

/**
 * Whether the rule doesn't apply to traffic on the failsafe list: a Drop or Reject that names
 * neither ports, protocols nor Services.
 */
export function isSkippedByFailsafe({ action, ports, protocols, toServices }: Rule): boolean {
  const isOpen = !ports?.length && !protocols?.length && !toServices?.length;
  return (action === 'Drop' || action === 'Reject') && isOpen;
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
    .map(([peers, of]) => `${[...new Set(of.map(portsOf))].join(', ')} ${preposition} ${peers}`)
    .join('; ');
}

export function portsOf({ protocol, ports: [first, last] }: FailsafeEntry): string {
  const ports = first === 0 && last === 65_535 ? 'every port' : first === last ? first : `${first}-${last}`;
  return `${protocol.toUpperCase()} ${ports}`;
}
