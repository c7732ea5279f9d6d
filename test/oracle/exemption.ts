import type { Address } from './address.ts';
import { addressKey, inRange, parseCidr } from './address.ts';
import type { OracleConfig } from './config.ts';
import type { Packet } from './flow.ts';
import { protocolNumbers } from './flow.ts';
import { groupNumber } from './interface-group.ts';

/** Answers whether a packet is accepted before any policy. */
export type ExemptionTest = (packet: Packet) => boolean;

export const loopbackRanges = ['127.0.0.0/8', '::1/128'].map(parseCidr);
const neighborDiscovery = [133, 134, 135, 136];
const multicastListener = [130, 131, 132, 143];

/** Builds the test from the configuration and the addresses of the Node. */
export function toExemptionTest(config: OracleConfig, nodeAddresses: Address[]): ExemptionTest {
  const own = new Set(nodeAddresses.map(addressKey));
  const isLocal = (address: Address | undefined) =>
    address !== undefined &&
    (own.has(addressKey(address)) || loopbackRanges.some((range) => inRange(range, address)));
  const isOn = (name: keyof NonNullable<OracleConfig['exemptions']>) => config.exemptions?.[name] !== false;
  // Not an exemption that can be turned off: NodePort policies are about what comes from outside.
  const isLeftAlone = (packet: Packet) =>
    packet.traffic === 'NodePort' && (isLocal(packet.src) || isPodsGroup(packet, config));
  return (packet) =>
    (isOn('loopback') && isLocal(packet.src) && isLocal(packet.dst)) ||
    (isOn('neighborDiscovery') && isICMPv6(packet, neighborDiscovery)) ||
    (isOn('multicastListener') && isICMPv6(packet, multicastListener)) ||
    (isOn('dhcpClient') && isDhcpClient(packet)) ||
    (isOn('localPods') && packet.direction === 'egress' && isPodsGroup(packet, config)) ||
    isLeftAlone(packet);
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

export function isPodsGroup(packet: Packet, config: OracleConfig): boolean {
  if (packet.interfaceGroup === undefined) return false;
  const number = groupNumber(packet.interfaceGroup, config);
  return number !== undefined && number === groupNumber('pods', config);
}
