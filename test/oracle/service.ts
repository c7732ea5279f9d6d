import { addressKey, parseAddress } from './address.ts';
import type { Packet } from './flow.ts';
import { protocolNumbers } from './flow.ts';
import type { PortManifest, ProtocolManifest, RuleManifest } from './manifest.ts';
import { assertOnlyFields } from './manifest.ts';

/**
 * True when the rule has a non-empty `ports`, `protocols` or `toServices`: it names what it opens
 * or closes.
 */
export function namesServices(rule: RuleManifest): boolean {
  return [rule.ports, rule.protocols, rule.toServices].some((list) => (list ?? []).length > 0);
}

/**
 * True when the packet is of the rule's `ports` or `protocols`; a rule that has neither takes all
 * traffic.
 */
export function matchesServices(rule: RuleManifest, packet: Packet): boolean {
  const { ports, protocols } = { ports: rule.ports ?? [], protocols: rule.protocols ?? [] };
  if (ports.length + protocols.length === 0) return true;
  return (
    ports.some((port) => matchesPort(port, packet)) ||
    protocols.some((protocol) => matchesProtocol(protocol, packet))
  );
}

/** True for a known value inside the inclusive range; no `from` asks nothing. */
export function withinPorts(from: number | undefined, to: number | undefined, value: number | undefined) {
  if (from === undefined) return true;
  return value !== undefined && from <= value && value <= (to ?? from);
}

/** The IP protocol number of `TCP` (default), `UDP` or `SCTP`. */
export function transportNumber(name: string | undefined): number {
  const number = protocolNumbers[(name ?? 'TCP').toLowerCase()];
  if (number === undefined) throw new Error(`not a transport protocol: ${name}`);
  return number;
}

function matchesPort(port: PortManifest, packet: Packet): boolean {
  assertOnlyFields(port, ['protocol', 'port', 'endPort', 'sourcePort', 'sourceEndPort'], 'ports[]');
  return (
    packet.protocol === transportNumber(port.protocol) &&
    withinPorts(port.port, port.endPort, packet.dstPort) &&
    withinPorts(port.sourcePort, port.sourceEndPort, packet.srcPort)
  );
}

function matchesProtocol(protocol: ProtocolManifest, packet: Packet): boolean {
  assertOnlyFields(protocol, ['icmp', 'icmpv6', 'igmp', 'protocol', 'groupAddress'], 'protocols[]');
  if (protocol.protocol !== undefined) {
    if (packet.protocol !== writtenNumber(protocol.protocol)) return false;
    return protocol.groupAddress === undefined || isGroup(protocol.groupAddress, packet);
  }
  if (protocol.icmp !== undefined) {
    const { icmpType, icmpCode } = protocol.icmp ?? {};
    if (icmpType === undefined) return packet.protocol === 1 || packet.protocol === 58;
    // nft's `icmp type` implies IPv4, as SEMANTICS says of a typed icmp.
    return packet.protocol === 1 && packet.family !== 6 && matchesType(icmpType, icmpCode, packet);
  }
  if (protocol.icmpv6 !== undefined) {
    const { icmpType, icmpCode } = protocol.icmpv6 ?? {};
    if (icmpType === undefined) return packet.protocol === 58;
    return packet.protocol === 58 && packet.family !== 4 && matchesType(icmpType, icmpCode, packet);
  }
  if (protocol.igmp !== undefined) {
    const { igmpType, groupAddress } = protocol.igmp ?? {};
    if (packet.protocol !== 2) return false;
    if (igmpType !== undefined && packet.igmpType !== igmpType) return false;
    return groupAddress === undefined || isGroup(groupAddress, packet);
  }
  throw new Error('an empty item of protocols');
}

/** IANA's numbers of the names that the generators use, and of a few more. */
const writtenNumbers: Readonly<Record<string, number>> = {
  ...protocolNumbers,
  ipip: 4,
  ipv6: 41,
  gre: 47,
  esp: 50,
  ah: 51,
  ospf: 89,
  pim: 103,
  vrrp: 112,
};

function writtenNumber(written: string | number): number {
  const number = typeof written === 'number' ? written : writtenNumbers[written.toLowerCase()];
  if (number === undefined) throw new Error(`not an IP protocol: ${written}`);
  return number;
}

function matchesType(type: number, code: number | undefined, packet: Packet): boolean {
  return packet.icmpType === type && (code === undefined || packet.icmpCode === code);
}

/** The group is the packet's destination. */
function isGroup(groupAddress: string, packet: Packet): boolean {
  const group = parseAddress(groupAddress);
  if (group === undefined) throw new Error(`not an address: ${groupAddress}`);
  return packet.dst !== undefined && addressKey(packet.dst) === addressKey(group);
}
