import { type Address, addressKey, inRange, parseCidr } from './address.ts';
import { type OracleConfig, type Packet, protocolNumbers } from './flow.ts';
import { groupNumber } from './peer.ts';
import type { OracleRule } from './rule.ts';

/** Answers whether a packet is accepted before any policy. */
type ExemptionTest = (packet: Packet) => boolean;

export const loopbackRanges = ['127.0.0.0/8', '::1/128'].map(parseCidr);
const several = ['224.0.0.0/4', '255.255.255.255/32', 'ff00::/8'].map(parseCidr);
const dhcpAnswers = ['255.255.255.255/32', 'fe80::/10'].map(parseCidr);
const neighborDiscovery = [133, 134, 135, 136];
const multicastListener = [130, 131, 132, 143];

/**
 * Builds the test from the configuration and the addresses of the Node. Packets to local pods are
 * accepted without a look at any rule only if no rule that closes egress names a pod.
 */
export function toExemptionTest(
  config: OracleConfig,
  nodeAddresses: Address[],
  rules: readonly OracleRule[],
): ExemptionTest {
  const arePodsNamed = rules.some((rule) => rule.direction === 'egress' && closes(rule) && rule.namesPods);
  const own = new Set(nodeAddresses.map(addressKey));
  const isLocal = (address: Address | undefined) =>
    address !== undefined &&
    (own.has(addressKey(address)) || loopbackRanges.some((range) => inRange(range, address)));
  const isOn = (name: keyof NonNullable<OracleConfig['exemptions']>) => config.exemptions?.[name] !== false;
  // Not an exemption that can be turned off: NodePort policies are about what comes from outside.
  const isLeftAlone = (packet: Packet) =>
    packet.traffic === 'NodePort' && (isLocal(packet.src) || isPodsGroup(packet, config));
  return (packet) =>
    (isOn('loopback') && isLocal(packet.src) && (isLocal(packet.dst) || isOwnCopy(packet))) ||
    (isOn('neighborDiscovery') && isICMPv6(packet, neighborDiscovery)) ||
    (isOn('multicastListener') && isICMPv6(packet, multicastListener)) ||
    (isOn('dhcpClient') && isDhcpClient(packet)) ||
    (!arePodsNamed && goesToLocalPod(packet, config)) ||
    isLeftAlone(packet);
}

/** Whether a packet goes to a local pod, and the exemption for these is on. */
export function goesToLocalPod(packet: Packet, config: OracleConfig): boolean {
  const isOn = config.exemptions?.localPods !== false;
  return isOn && packet.direction === 'egress' && isPodsGroup(packet, config);
}

/** Such packets skip the rules that close something and name no pod. */
export function isForOthers(rule: OracleRule): boolean {
  return closes(rule) && !rule.namesPods;
}

function closes({ manifest }: OracleRule): boolean {
  return manifest.action === 'Drop' || manifest.action === 'Reject';
}

function isICMPv6(packet: Packet, types: number[]): boolean {
  if (packet.protocol !== protocolNumbers.icmpv6 || packet.family === 4) return false;
  return packet.icmpType !== undefined && types.includes(packet.icmpType);
}

/** What a Node sends to several machines, it gets itself. */
function isOwnCopy({ direction, traffic, dst }: Packet): boolean {
  const isHost = direction === 'ingress' && traffic !== 'NodePort';
  return isHost && dst !== undefined && several.some((range) => inRange(range, dst));
}

/**
 * DHCP asks for the IP version, so a flow without any address is not exempt. Answers count at
 * destinations that no router forwards to.
 */
function isDhcpClient(packet: Packet): boolean {
  if (packet.protocol !== protocolNumbers.udp || packet.family === undefined) return false;
  const [client, server] = packet.family === 4 ? [68, 67] : [546, 547];
  if (packet.direction === 'egress') return packet.srcPort === client && packet.dstPort === server;
  if (packet.traffic === 'NodePort' || packet.dst === undefined) return false;
  const isOfLink = dhcpAnswers.some((range) => packet.dst !== undefined && inRange(range, packet.dst));
  return isOfLink && packet.srcPort === server && packet.dstPort === client;
}

export function isPodsGroup(packet: Packet, config: OracleConfig): boolean {
  if (packet.interfaceGroup === undefined) return false;
  const number = groupNumber(packet.interfaceGroup, config);
  return number !== undefined && number === groupNumber('pods', config);
}
