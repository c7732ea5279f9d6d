import { ipProtocolName } from '../../apis/ip-protocols.ts';
import type { NodeFlow } from '../../apis/node-flows.ts';
import type { Direction, PolicyTraffic } from '../../apis/objects.ts';

/** The most that is kept of names and addresses; beyond it they are counted. */
const MOST_NODES = 3;
const MOST_ADDRESSES = 64;

/** A rule's service beside its peers: a port, a type of ICMP or IGMP, or a whole protocol. */
export interface SeenService {
  readonly direction: Direction;
  readonly traffic: PolicyTraffic;
  /** Null: many services, or one whose port or type is not known. */
  readonly protocol: NodeFlow['protocol'] | null;
  /** For TCP, UDP and SCTP; else null. */
  readonly port: number | null;
  /** For ICMP, ICMPv6 and IGMP; else null. */
  readonly type: number | null;
}

const WITH_PORTS: readonly unknown[] = ['tcp', 'udp', 'sctp'];
const WITH_TYPES: readonly unknown[] = ['icmp', 'icmpv6', 'igmp'];

export function toSeenService(kind: NodeFlow): SeenService {
  const { direction, traffic, protocol, allPorts } = kind;
  // No rule can name port 0.
  const port = WITH_PORTS.includes(protocol) ? kind.port || undefined : null;
  const type = WITH_TYPES.includes(protocol) ? kind.icmpType : null;
  return allPorts === true || port === undefined || type === undefined
    ? { direction, traffic, protocol: null, port: null, type: null }
    : { direction, traffic, protocol, port, type };
}

/** `tcp 22`, `icmp 8`, `vrrp`, `253`. */
export function seenServiceText({ protocol, port, type }: SeenService): string {
  return protocol === null
    ? 'many or unknown ports'
    : [ipProtocolName(protocol), port ?? type ?? ''].join(' ').trim();
}

export function seenServiceKey(service: SeenService): string {
  return `${service.direction} ${service.traffic} ${seenServiceText(service)}`;
}

/** Ingress first, Host first, then by protocol and number. */
export function compareServices(a: SeenService, b: SeenService): number {
  const [places, others] = [placesOf(a), placesOf(b)];
  return places.map((place, i) => place - (others[i] ?? 0)).find((difference) => difference !== 0) ?? 0;
}

function placesOf({ direction, traffic, protocol, port, type }: SeenService): number[] {
  const named = [null, ...WITH_PORTS, ...WITH_TYPES].indexOf(protocol);
  const place = typeof protocol === 'number' ? 10 + protocol : named;
  return [Number(direction === 'egress'), Number(traffic === 'NodePort'), place, port ?? type ?? 0];
}

/**
 * The evidence for something: connections, when, and where. Times are in milliseconds since 1970.
 */
export interface Evidence {
  connections: number;
  /** Connections that were open when the nodes were asked. */
  live: number;
  firstSeen: number;
  lastSeen: number;
  /** The first nodes by name that saw it, and the number of all. */
  nodes: readonly string[];
  nodeCount: number;
  /** Addresses of the peer. */
  readonly addresses: Set<string>;
  /** Whether there were more addresses. */
  isCut: boolean;
}

export function evidenceOf({ connections, live, ...kind }: NodeFlow, node: string): Evidence {
  return {
    connections,
    live: live ?? 0,
    firstSeen: Date.parse(kind.firstSeen),
    lastSeen: Date.parse(kind.lastSeen),
    nodes: [node],
    nodeCount: 1,
    addresses: new Set([kind.peer]),
    isCut: false,
  };
}

/** Adds `more` to `to`, which keeps at most so many addresses. */
export function addEvidence(to: Evidence, more: Evidence, most = MOST_ADDRESSES): void {
  to.connections += more.connections;
  to.live += more.live;
  to.firstSeen = Math.min(to.firstSeen, more.firstSeen);
  to.lastSeen = Math.max(to.lastSeen, more.lastSeen);
  to.isCut ||= more.isCut;
  for (const address of more.addresses) {
    if (to.addresses.size < most) to.addresses.add(address);
    else if (!to.addresses.has(address)) to.isCut = true;
  }
  const isOfOneNode = to.nodeCount === 1 && more.nodeCount === 1 && to.nodes[0] === more.nodes[0];
  if (isOfOneNode) return;
  to.nodeCount += more.nodeCount;
  // Not the first that answered: they are others the next time.
  to.nodes = [...new Set([...to.nodes, ...more.nodes])].sort().slice(0, MOST_NODES);
}

/** The sum with all addresses. */
export function sumOf(all: readonly Evidence[]): Evidence {
  const sum: Evidence = {
    connections: 0,
    live: 0,
    firstSeen: Number.POSITIVE_INFINITY,
    lastSeen: 0,
    nodes: [],
    nodeCount: 0,
    addresses: new Set(),
    isCut: false,
  };
  for (const one of all) addEvidence(sum, one, Number.POSITIVE_INFINITY);
  return sum;
}
