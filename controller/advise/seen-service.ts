import type { Flow } from '../../apis/flow.ts';
import type { NodeFlow } from '../../apis/node-flows.ts';
import type { Direction, PolicyTraffic } from '../../apis/objects.ts';

type Protocol = NonNullable<Flow['protocol']>;

/** A rule's service beside its peers: one port of a protocol, or one type of ICMP or IGMP. */
export interface SeenService {
  readonly direction: Direction;
  readonly traffic: PolicyTraffic;
  readonly protocol: Protocol;
  /** For TCP, UDP and SCTP; else null. */
  readonly port: number | null;
  /** For ICMP, ICMPv6 and IGMP; else null. */
  readonly type: number | null;
}

const WITH_PORTS = ['tcp', 'udp', 'sctp'] as const;
const WITH_TYPES = ['icmp', 'icmpv6', 'igmp'] as const;

export function hasPorts({ protocol }: SeenService): boolean {
  return WITH_PORTS.some((one) => one === protocol);
}

export function hasTypes({ protocol }: SeenService): boolean {
  return WITH_TYPES.some((one) => one === protocol);
}

/** `tcp 22`, `icmp 8`, `253`. */
export function serviceText({ protocol, port, type }: SeenService): string {
  return [protocol, port ?? type ?? ''].join(' ').trim();
}

export function serviceKey(service: SeenService): string {
  return `${service.direction} ${service.traffic} ${serviceText(service)}`;
}

/** Ingress first, Host first, then by protocol and number. */
export function compareServices(a: SeenService, b: SeenService): number {
  const placeOf = ({ direction, traffic }: SeenService): number =>
    Number(direction === 'egress') * 2 + Number(traffic === 'NodePort');
  const [of, and] = [placeOf(a), placeOf(b)];
  if (of !== and) return of - and;
  const [protocol, other] = [protocolPlace(a), protocolPlace(b)];
  return protocol - other || (a.port ?? a.type ?? 0) - (b.port ?? b.type ?? 0);
}

function protocolPlace({ protocol }: SeenService): number {
  if (typeof protocol === 'number') return 10 + protocol;
  return [...WITH_PORTS, ...WITH_TYPES].indexOf(protocol);
}

/**
 * The service of a kind; null: it names none, because it stands for many, or because its port is
 * not known.
 */
export function serviceOf({
  direction,
  traffic,
  protocol,
  port,
  icmpType,
  allPorts,
}: NodeFlow): SeenService | null {
  if (allPorts === true) return null;
  const service = { direction, traffic, protocol, port: port ?? null, type: icmpType ?? null };
  // No rule can name port 0.
  if (hasPorts(service)) return port === undefined || port === 0 ? null : { ...service, type: null };
  if (hasTypes(service)) return icmpType === undefined ? null : { ...service, port: null };
  return { ...service, port: null, type: null };
}
