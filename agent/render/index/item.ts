import type { CompiledRule, PortRange, Service } from '../../../apis/compiled.ts';
import type { MemberSet } from '../../../lib/net/member-set.ts';
import { ALL_PORTS, intersectPorts, portCount, unionPorts } from '../ports.ts';
import type { L4Protocol, PortProtocol } from '../ruleset.ts';

/** One policy rule that the index is for. */
export interface Entry {
  readonly rule: CompiledRule;
  readonly chain: string;
  /** Whom it is for; null where that isn't told by the address alone: anybody. */
  readonly peers: Peers | null;
}

/** Addresses that rules are for; equal keys are the same. */
export interface Peers {
  readonly key: string;
  readonly members: MemberSet;
}

/** What a rule asks of the packets of one protocol. */
export interface Item {
  readonly chain: string;
  readonly id: string;
  readonly peers: Peers | null;
  /** Destination ports, within the scope; null is every port. */
  readonly ranges: readonly PortRange[] | null;
  /** Source ports; null is every port. */
  readonly sources: readonly PortRange[] | null;
  /** A packet from the peers, from and to the ports, goes no further than this rule. */
  readonly final: boolean;
}

const unlimited = new WeakMap<Item, Item>();

/**
 * The item as if its peers were anybody, which it then leaves to the rule; always the same object.
 */
export function forAnybody(item: Item): Item {
  let found = unlimited.get(item);
  if (found === undefined) {
    found = { ...item, peers: null, final: false };
    unlimited.set(item, found);
  }
  return found;
}

/**
 * Traffic that an index is for: only these ports of these protocols can come in. Null is any
 * traffic.
 */
export type Scope = ReadonlyMap<PortProtocol, readonly PortRange[]> | null;

export const PORT_PROTOCOLS = ['tcp', 'udp', 'sctp'] as const;

/** The rule as packets of a protocol meet it, at these ports; null where it can't match them. */
export function portItem(
  { rule, chain, peers }: Entry,
  protocol: PortProtocol,
  ports: readonly PortRange[],
): Item | null {
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
  const ranges = intersectPorts(unionPorts(named), ports);
  if (ranges.length === 0) return null;
  return {
    ...item,
    ranges: portCount(ranges) === portCount(ports) ? null : ranges,
    sources: limited(unionPorts(from)),
    // Of several pairs of ports not every port of the one goes with every port of the other.
    final:
      endsAtPeers(rule) && rule.serviceSets.length === 0 && from.every((range) => isEqual(range, from[0])),
  };
}

function limited(ranges: readonly PortRange[]): readonly PortRange[] | null {
  return portCount(ranges) === portCount([ALL_PORTS]) ? null : ranges;
}

function isEqual(a: PortRange, b: PortRange | undefined): boolean {
  return a[0] === b?.[0] && a[1] === b[1];
}

/** As portItem, for a protocol without ports; null is every protocol that no rule names. */
export function protocolItem({ rule, chain, peers }: Entry, protocol: L4Protocol | null): Item | null {
  const services = servicesOf(rule);
  const item = { chain, id: rule.id, peers, ranges: null, sources: null };
  if (services.length === 0) return { ...item, final: endsAtPeers(rule) };
  const named = services.filter((service) => service.protocol === protocol);
  if (named.length === 0) return null;
  // ICMP types and IGMP groups are left to the rule.
  return { ...item, final: endsAtPeers(rule) && rule.serviceSets.length === 0 && named.some(isWhole) };
}

/** Every packet of the protocol. */
function isWhole(service: Service): boolean {
  switch (service.protocol) {
    case 'icmp':
    case 'icmpv6':
      return service.type === undefined;
    case 'igmp':
      return service.type === undefined && service.group === undefined;
    default:
      return service.ports === undefined && service.sourcePorts === undefined;
  }
}

/**
 * A ServiceSet has members of these protocols and no others; which ports they have changes without
 * the rule.
 */
function servicesOf({ services, serviceSets }: CompiledRule): readonly Service[] {
  return serviceSets.length > 0 ? EVERY_PORT : services;
}

const EVERY_PORT: readonly Service[] = PORT_PROTOCOLS.map((protocol) => ({ protocol }));

/** An Audit rule lets every packet go on; of interface groups the index knows nothing. */
function endsAtPeers({ mode, interfaceGroups }: CompiledRule): boolean {
  return mode === 'Enforce' && interfaceGroups.length === 0;
}
