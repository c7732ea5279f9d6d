import type { Address } from './address.ts';
import { addressKey, inRange, parseCidr } from './address.ts';
import type { OracleConfig } from './config.ts';
import type { Packet } from './flow.ts';
import { protocolNumbers } from './flow.ts';

/** Answers whether a packet is accepted before any policy. */
export type ExemptionTest = (packet: Packet) => boolean;

const loopbackRanges = ['127.0.0.0/8', '::1/128'].map(parseCidr);
const neighborDiscovery = [133, 134, 135, 136];
const multicastListener = [130, 131, 132, 143];

/** Builds the test from the configuration and the addresses of the Node. */
export function toExemptionTest(config: OracleConfig, nodeAddresses: Address[]): ExemptionTest {
  const own = new Set(nodeAddresses.map(addressKey));
  const isLocal = (address: Address | undefined) =>
    address !== undefined &&
    (own.has(addressKey(address)) || loopbackRanges.some((range) => inRange(range, address)));
  const isOn = (name: keyof NonNullable<OracleConfig['exemptions']>) => config.exemptions?.[name] !== false;
  return (packet) =>
    (isOn('loopback') && isLocal(packet.src) && isLocal(packet.dst)) ||
    (isOn('neighborDiscovery') && isICMPv6(packet, neighborDiscovery)) ||
    (isOn('multicastListener') && isICMPv6(packet, multicastListener)) ||
    (isOn('dhcpClient') && isDhcpClient(packet)) ||
    (isOn('localPods') && packet.direction === 'egress' && isPodsGroup(packet, config));
}

function isICMPv6(packet: Packet, types: number[]): boolean {
  if (packet.protocol !== protocolNumbers.icmpv6 || packet.family === 4) return false;
  return packet.icmpType !== undefined && types.includes(packet.icmpType);
}

/** DHCP asks for the IP version, so a flow without any address is not exempt. */
function isDhcpClient(packet: Packet): boolean {
  if (packet.protocol !== protocolNumbers.udp || packet.family === undefined) return false;
  const [client, server] = packet.family === 4 ? [68, 67] : [546, 547];
  return packet.direction === 'egress'
    ? packet.srcPort === client && packet.dstPort === server
    : packet.srcPort === server && packet.dstPort === client;
}

function isPodsGroup(packet: Packet, config: OracleConfig): boolean {
  const numbers = { pods: 8, clusternet: 9, ...config.interfaceGroups };
  const group = packet.interfaceGroup;
  if (group === undefined) return false;
  const entry = typeof group === 'number' ? group : numbers[group as keyof typeof numbers];
  return entry !== undefined && groupNumber(entry) === groupNumber(numbers.pods);
}

function groupNumber(entry: number | { group: number }): number {
  return typeof entry === 'number' ? entry : entry.group;
}
