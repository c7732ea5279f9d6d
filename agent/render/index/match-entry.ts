import {
  type CompiledRule,
  namesPorts,
  type PortMatch,
  type PortRange,
  type ServiceSet,
} from '../../../apis/compiled.ts';
import type { ResolvedPeer } from '../../../apis/resolved-peers.ts';
import { ALL_PORTS, intersectPorts, portCount, unionRanges } from '../../../lib/net/interval.ts';
import { type MemberSet, toMemberSet } from '../../../lib/net/member-set.ts';
import type { L4Protocol, PortProtocol } from '../ruleset.ts';

/** A policy rule, as input of the index. */
export interface IndexRule {
  readonly rule: CompiledRule;
  readonly chain: string;
  /**
   * The addresses the rule applies to; null if the address alone doesn't determine that: any
   * address.
   */
  readonly peers: Peers | null;
}

/** The addresses that rules apply to; equal keys mean equal addresses. */
export interface Peers {
  readonly key: string;
  readonly members: MemberSet;
}

/** A match entry: a rule as it applies to the packets of one protocol. */
export interface MatchEntry {
  readonly chain: string;
  readonly id: string;
  readonly peers: Peers | null;
  /** Destination ports, within the scope; null: every port. */
  readonly ranges: readonly PortRange[] | null;
  /** Source ports; null: every port. */
  readonly sources: readonly PortRange[] | null;
  /** Whether evaluation ends with this rule for packets from the peers, from and to the ports. */
  readonly final: boolean;
}

/**
 * The traffic that an index receives: only these ports of these protocols; of one by number, every
 * packet. Null: any traffic.
 */
export type Scope = ReadonlyMap<PortProtocol | number, readonly PortRange[]> | null;

export const PORT_PROTOCOLS = ['tcp', 'udp', 'sctp'] as const;

/** The item for packets of a protocol to these ports; null if the rule can't match them. */
export function portItem(
  { rule, chain, peers }: IndexRule,
  protocol: PortProtocol,
  ports: readonly PortRange[],
): MatchEntry | null {
  if (ports.length === 0) return null;
  const services = servicesOf(rule);
  const item = { chain, id: rule.id, peers };
  if (services.length === 0) return { ...item, ranges: null, sources: null, final: endsAtPeers(rule) };
  const named: PortRange[] = [];
  const from: PortRange[] = [];
  for (const service of services) {
    if (service.protocol !== protocol) continue;
    named.push(service.ports ?? ALL_PORTS);
    from.push(service.sourcePorts ?? ALL_PORTS);
  }
  if (named.length === 0) return null;
  const ranges = intersectPorts(unionRanges(named), ports);
  if (ranges.length === 0) return null;
  return {
    ...item,
    ranges: portCount(ranges) === portCount(ports) ? null : ranges,
    sources: limited(unionRanges(from)),
    // With several pairs of source and destination ports, not every source port goes with every
    // destination port.
    final: endsAtPeers(rule) && from.every((range) => isEqual(range, from[0])),
  };
}

function limited(ranges: readonly PortRange[]): readonly PortRange[] | null {
  return portCount(ranges) === portCount([ALL_PORTS]) ? null : ranges;
}

function isEqual(a: PortRange, b: PortRange | undefined): boolean {
  return a[0] === b?.[0] && a[1] === b[1];
}

/**
 * Like portItem, for a protocol without ports. Null stands for all protocols that no rule names.
 */
export function protocolItem(
  { rule, chain, peers }: IndexRule,
  protocol: L4Protocol | null,
): MatchEntry | null {
  const services = servicesOf(rule);
  const item = { chain, id: rule.id, peers, ranges: null, sources: null };
  if (services.length === 0) return { ...item, final: endsAtPeers(rule) };
  const named = services.filter((service) => service.protocol === protocol);
  if (named.length === 0) return null;
  // ICMP types and multicast groups are tested by the rule itself.
  return { ...item, final: endsAtPeers(rule) && named.some(isWhole) };
}

/** Whether it matches every packet of the protocol. */
function isWhole(service: PortMatch): boolean {
  switch (service.protocol) {
    case 'icmp':
    case 'icmpv6':
      return service.type === undefined;
    case 'igmp':
      return service.type === undefined && service.group === undefined;
    case 'tcp':
    case 'udp':
    case 'sctp':
      return service.ports === undefined && service.sourcePorts === undefined;
    default:
      return service.group === undefined;
  }
}

/** A ServiceSet has members of these protocols only; their ports change without the rule. */
function servicesOf(rule: CompiledRule): readonly PortMatch[] {
  return namesPorts(rule) ? EVERY_PORT : rule.services;
}

const EVERY_PORT: readonly PortMatch[] = PORT_PROTOCOLS.map((protocol) => ({ protocol }));

/** An Audit rule ends no evaluation, and the index looks at nothing but the address. */
function endsAtPeers({ mode, peers: [only, ...others] }: CompiledRule): boolean {
  if (mode === 'Audit' || others.length > 0) return false;
  return only?.kind === 'any' || only?.kind === 'addresses';
}

/** The addresses a rule applies to; null if other addresses may match too. */
export function peersOf(
  [only, ...others]: readonly ResolvedPeer[],
  ofServices: (set: ServiceSet) => Peers,
): Peers | null {
  if (only === undefined || others.length > 0) return null;
  switch (only.kind) {
    case 'any':
    case 'interfaces':
      return null;
    case 'addresses':
      return { key: only.set.id, members: only.set.members };
    case 'services':
      return ofServices(only.set);
  }
}

/** The addresses of the Services, whatever the port. */
export function servicePeers({ id, members }: ServiceSet): Peers {
  const addresses = new Set(members.map(({ address }) => address));
  return { key: `services ${id}`, members: toMemberSet([], addresses) };
}
