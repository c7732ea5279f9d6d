import { type Address, type Family, parseAddress } from './address.ts';

/** One new connection as SEMANTICS section 4 writes it; absent fields are unknown. */
export interface Flow {
  direction: 'ingress' | 'egress';
  src?: string;
  dst?: string;
  protocol?: string | number;
  srcPort?: number;
  dstPort?: number;
  originalDst?: string;
  originalDstPort?: number;
  untracked?: boolean;
  icmpType?: number;
  icmpCode?: number;
  igmpType?: number;
  interfaceGroup?: string | number;
  traffic?: 'Host' | 'NodePort';
}

/** A Flow with addresses and protocol read; `remote` is the end that is not the Node. */
export interface Packet {
  direction: 'ingress' | 'egress';
  src: Address | undefined;
  dst: Address | undefined;
  remote: Address | undefined;
  /** IP version as far as the addresses tell it. */
  family: Family | undefined;
  /** IP protocol number. */
  protocol: number | undefined;
  srcPort: number | undefined;
  dstPort: number | undefined;
  /** The destination before NAT; what is not said of it is as it is now. */
  original: { dst: Address | undefined; dstPort: number | undefined };
  icmpType: number | undefined;
  icmpCode: number | undefined;
  igmpType: number | undefined;
  interfaceGroup: string | number | undefined;
  traffic: 'Host' | 'NodePort';
  isUntracked: boolean;
}

/** IP protocol numbers (IANA) of the names a flow may use. */
export const protocolNumbers: Readonly<Record<string, number>> = {
  icmp: 1,
  igmp: 2,
  tcp: 6,
  udp: 17,
  icmpv6: 58,
  sctp: 132,
};

/**
 * Reads a flow. Throws on one that no packet can be: unknown protocol name, unreadable or mixed
 * addresses.
 */
export function toPacket(flow: Flow): Packet {
  const traffic = flow.traffic ?? 'Host';
  if (traffic !== 'Host' && traffic !== 'NodePort') {
    throw new Error(`the oracle does not evaluate ${traffic} traffic`);
  }
  if (flow.direction !== 'ingress' && flow.direction !== 'egress')
    throw new Error('a flow without direction');
  // NodePort connections come from outside; what the Node answers belongs to them.
  if (traffic === 'NodePort' && flow.direction === 'egress') throw new Error('NodePort traffic on egress');
  const src = readAddress(flow.src);
  const dst = readAddress(flow.dst);
  if (src !== undefined && dst !== undefined && src.family !== dst.family) {
    throw new Error(`a flow from ${flow.src} to ${flow.dst} mixes IPv4 and IPv6`);
  }
  return {
    direction: flow.direction,
    src,
    dst,
    remote: flow.direction === 'ingress' ? src : dst,
    family: src?.family ?? dst?.family,
    protocol: readProtocol(flow.protocol),
    srcPort: flow.srcPort,
    dstPort: flow.dstPort,
    original: {
      dst: readAddress(flow.originalDst ?? flow.dst),
      dstPort: flow.originalDstPort ?? flow.dstPort,
    },
    icmpType: flow.icmpType,
    icmpCode: flow.icmpCode,
    igmpType: flow.igmpType,
    interfaceGroup: flow.interfaceGroup,
    traffic,
    isUntracked: flow.untracked === true,
  };
}

function readAddress(text: string | undefined): Address | undefined {
  if (text === undefined) return undefined;
  const address = parseAddress(text);
  if (address === undefined) throw new Error(`not an address: ${text}`);
  return address;
}

function readProtocol(protocol: string | number | undefined): number | undefined {
  if (typeof protocol !== 'string') return protocol;
  const number = protocolNumbers[protocol];
  if (number === undefined) throw new Error(`not a protocol: ${protocol}`);
  return number;
}

/** One entry of a failsafe list. */
export interface FailsafeEntry {
  protocol?: string;
  port?: number;
  endPort?: number;
  peers: 'nodes' | 'controllers' | 'any' | string[];
}

/** The part of the agent's configuration that verdicts depend on. */
export interface OracleConfig {
  exemptions?: {
    loopback?: boolean;
    neighborDiscovery?: boolean;
    multicastListener?: boolean;
    dhcpClient?: boolean;
    localPods?: boolean;
  };
  antiSpoofing?: boolean;
  endpointsWithoutPods?: string[];
  interfaceGroups?: Record<string, number | { group: number }>;
  failsafe?: { ingress?: FailsafeEntry[]; egress?: FailsafeEntry[]; platform?: boolean };
}

/** What `--names` gives: the addresses that each name resolves to. */
export type Names = Readonly<Record<string, readonly string[]>>;
