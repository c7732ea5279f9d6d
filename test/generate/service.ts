import fc from 'fast-check';
import type { PortManifest, ProtocolManifest } from '../oracle/manifest.ts';
import { fields, maybe, oneOf, weighted } from './choice.ts';

/** Few ports, so that rules overlap: the failsafe's, its neighbours', the first, the last. */
export const commonPorts = [
  22, 53, 67, 68, 80, 443, 546, 547, 2379, 2380, 6443, 8080, 8443, 9443, 10250, 30000, 1, 65535,
];

/** IPv4 ICMP types that rules name; a kernel test can send the queries among them. */
export const icmpTypes = [0, 3, 8, 11, 13, 17];

/**
 * ICMPv6 types that rules name: echo, errors, one of ND and one of MLD, a node information query.
 */
export const icmpv6Types = [1, 3, 128, 129, 135, 143, 139];

/** IGMP types: those of members (query, v1, v2 and v3 report, leave), and DVMRP, PIM, discovery. */
export const igmpTypes = [0x11, 0x12, 0x16, 0x17, 0x22, 0x13, 0x14, 0x30];

/** Multicast groups that IGMP rules and flows name. */
export const igmpGroups = ['224.0.0.1', '224.0.0.22', '239.1.1.1'];

/**
 * Protocols that rules name whole: GRE, ESP, AH, OSPF, VRRP, IP-in-IP, one without a name,
 * hop-by-hop options, and those that have an item of their own.
 */
const wholeProtocols = [
  47,
  'GRE',
  50,
  'ah',
  89,
  'ospf',
  112,
  'vrrp',
  4,
  'ipip',
  255,
  0,
  6,
  'udp',
  'icmp',
  58,
  2,
];

/** Groups that rules name beside such a protocol. */
export const protocolGroups = ['224.0.0.18', '224.0.0.5', 'ff02::12', 'ff02::5'];

/** A port as rules name it: a common one as a rule, any one now and then. */
export function portNumber(): fc.Arbitrary<number> {
  return weighted([8, oneOf(commonPorts)], [1, fc.integer({ min: 1, max: 65535 })]);
}

/** One item of `ports`: single ports, overlapping ranges, source ports, a protocol alone. */
function port(): fc.Arbitrary<PortManifest> {
  const protocol = weighted<string | undefined>(
    [2, fc.constant(undefined)],
    [3, fc.constant('TCP')],
    [4, fc.constant('UDP')],
    [3, fc.constant('SCTP')],
  );
  const range = fc
    .tuple(portNumber(), span())
    .map(([from, width]) => [from, Math.min(65535, from + width)] as const);
  const numbers = weighted<PortManifest>(
    [6, portNumber().map((number) => ({ port: number }))],
    [4, range.map(([from, to]) => ({ port: from, endPort: to }))],
    [2, fc.constant({})],
  );
  const sources = weighted<PortManifest>(
    [9, fc.constant({})],
    [1, portNumber().map((number) => ({ sourcePort: number }))],
    [1, range.map(([from, to]) => ({ sourcePort: from, sourceEndPort: to }))],
  );
  return fc
    .tuple(fields<{ protocol?: string }>({ protocol }), numbers, sources)
    .map(([name, target, source]) => ({
      ...name,
      ...target,
      ...source,
    }));
}

/** One item of `protocols`; `icmpv6` and `protocol` are ours alone: Antrea's objects lack them. */
function protocol(isAntrea: boolean): fc.Arbitrary<ProtocolManifest> {
  const igmp = fields<NonNullable<ProtocolManifest['igmp']>>({
    igmpType: maybe(50, oneOf(igmpTypes)),
    groupAddress: maybe(40, oneOf(igmpGroups)),
  });
  const kinds: [number, fc.Arbitrary<ProtocolManifest>][] = [
    [4, icmp(icmpTypes).map((drawn) => ({ icmp: drawn }))],
    [3, igmp.map((drawn) => ({ igmp: drawn }))],
  ];
  if (!isAntrea) {
    kinds.push([4, icmp(icmpv6Types).map((drawn) => ({ icmpv6: drawn }))]);
    const inGroup = fc.record({
      protocol: fc.constantFrom(89, 'ospf', 112, 'vrrp', 47),
      groupAddress: oneOf(protocolGroups),
    });
    kinds.push([3, oneOf(wholeProtocols).map((protocol) => ({ protocol }))], [3, inGroup]);
  }
  return weighted(...kinds);
}

/** What a rule names: ports, protocols, both, empty lists or nothing. */
export function services(
  isAntrea: boolean,
): fc.Arbitrary<{ ports?: PortManifest[]; protocols?: ProtocolManifest[] }> {
  const ports = fc.array(port(), { minLength: 1, maxLength: 4 });
  const protocols = fc.array(protocol(isAntrea), { minLength: 1, maxLength: 2 });
  return weighted<{ ports?: PortManifest[]; protocols?: ProtocolManifest[] }>(
    [10, ports.map((list) => ({ ports: list }))],
    [6, protocols.map((list) => ({ protocols: list }))],
    [2, fc.record({ ports, protocols })],
    [3, fc.constant({})],
    [1, fc.constantFrom({ ports: [] }, { protocols: [] }, { ports: [], protocols: [] })],
  );
}

function span(): fc.Arbitrary<number> {
  return weighted(
    [3, fc.integer({ min: 0, max: 2 })],
    [3, fc.integer({ min: 3, max: 1000 })],
    [1, fc.constant(65535)],
  );
}

function icmp(types: readonly number[]): fc.Arbitrary<{ icmpType?: number; icmpCode?: number }> {
  const code = weighted([2, fc.constant(0)], [1, fc.integer({ min: 1, max: 3 })]);
  return weighted<{ icmpType?: number; icmpCode?: number }>(
    [3, fc.constant({})],
    [4, oneOf(types).map((icmpType) => ({ icmpType }))],
    [3, fc.record({ icmpType: oneOf(types), icmpCode: code })],
  );
}

/**
 * The ingress half of a policy, for NodePort traffic, of which few are drawn; other objects as they
 * are.
 */
export function ofNodePort(object: object): object {
  const { apiVersion = '', kind, spec } = object as Partial<Policy>;
  const isOurs = kind === 'ClusterNetworkPolicy' && apiVersion.startsWith('nodewall.io/');
  if (!isOurs || (spec?.ingress ?? []).length === 0) return object;
  const { egress: _, ...rest } = spec ?? {};
  return { ...object, spec: { ...rest, traffic: 'NodePort' } };
}

interface Policy {
  readonly apiVersion: string;
  readonly kind: string;
  readonly spec: { readonly ingress?: readonly object[]; readonly egress?: readonly object[] };
}
