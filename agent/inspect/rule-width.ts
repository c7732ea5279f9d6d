import type { CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { FamilyMembers } from '../../lib/net/packed-keys.ts';

/** How much a rule matches at most. */
export interface RuleWidth {
  /** Length of its shortest prefix of the family; 0: any address. Null: it has no address of it. */
  readonly v4: number | null;
  readonly v6: number | null;
  /** Destination ports of its widest service; null: it matches protocols without ports alone. */
  readonly ports: number | null;
}

const ALL_PORTS = 65_536;

/** Null: it matches by link groups or Services, which have no width. */
export function ruleWidth(
  { peers, services }: CompiledRule,
  { addressSets }: Pick<NodeState, 'addressSets'>,
): RuleWidth | null {
  const isAny = peers.some(({ kind }) => kind === 'any');
  if (!isAny && !peers.every(({ kind }) => kind === 'addresses')) return null;
  const sets = peers.flatMap((peer) => (peer.kind === 'addresses' ? (addressSets.get(peer.set) ?? []) : []));
  const shortest = (family: 'v4' | 'v6'): number | null =>
    isAny ? 0 : least(sets.flatMap(({ members }) => shortestOf(members[family]) ?? []));
  const ports = services.flatMap((service) => {
    if (!('ports' in service || 'sourcePorts' in service)) return hasPorts(service.protocol) ? ALL_PORTS : [];
    const [first, last] = service.ports ?? [0, ALL_PORTS - 1];
    return last - first + 1;
  });
  return {
    v4: shortest('v4'),
    v6: shortest('v6'),
    ports: services.length === 0 ? ALL_PORTS : ports.length === 0 ? null : Math.max(...ports),
  };
}

function hasPorts(protocol: string): boolean {
  return protocol === 'tcp' || protocol === 'udp' || protocol === 'sctp';
}

/** Single addresses count as prefixes of their whole length. */
function shortestOf({ family, singles, prefixes }: FamilyMembers): number | null {
  const lengths = prefixes.map(({ length }) => length);
  return least(singles.length > 0 ? [...lengths, family === 4 ? 32 : 128] : lengths);
}

function least(numbers: readonly number[]): number | null {
  return numbers.length === 0 ? null : Math.min(...numbers);
}
