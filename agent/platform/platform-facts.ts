import type { Link } from 'nftables-napi';
import { EGRESS_TUNNEL_PORT, EGRESS_WIREGUARD_PORT } from '../../apis/exemptions.ts';
import {
  CARRIER_PROTOCOLS,
  carrierEntry,
  MOST_PLATFORM_ENTRIES,
  type PlatformEntry,
  vrrpEntries,
} from '../../apis/platform.ts';
import { PLATFORM_PROGRAMS } from './platform-programs.ts';

/** The links that may carry pods' packets. */
export type PlatformLink = Pick<Link, 'index' | 'name' | 'kind' | 'isUp' | 'tunnelPort'>;

/** A WireGuard device as the kernel has it. */
export interface WireGuardFacts {
  readonly name: string;
  /** UDP port on which it listens. */
  readonly port: number;
  /** Those of its peers, as far as they are known. */
  readonly endpoints: readonly { readonly address: string; readonly port: number }[];
}

/** A socket that other hosts can reach. */
export interface PlatformSocket {
  readonly protocol: 'tcp' | 'udp';
  readonly port: number;
}

/** One network namespace, as the kernel says. */
export interface KernelFacts {
  readonly links: readonly PlatformLink[];
  readonly wireGuard: readonly WireGuardFacts[];
  /** TCP sockets that listen, and UDP sockets. */
  readonly sockets: readonly PlatformSocket[];
  /** Whether a TCP connection has port 179 at one of its ends. */
  readonly hasBgpSession: boolean;
  /** IP protocols of raw sockets. */
  readonly rawProtocols: readonly number[];
  readonly hasIpsecStates: boolean;
}

export const NO_KERNEL_FACTS: KernelFacts = {
  links: [],
  wireGuard: [],
  sockets: [],
  hasBgpSession: false,
  rawProtocols: [],
  hasIpsecStates: false,
};

/** The most endpoints of WireGuard peers that count. */
const MOST_ENDPOINTS = 1_024;
/** The most links of which an entry names its origin: the rest of a long list says nothing new. */
const MOST_REASONS = 4;

const { ipip, ipv6, gre, esp, ah, vrrp } = CARRIER_PROTOCOLS;
/** Tunnels right above IP, by kind; FOU and GUE put UDP between. */
const LINK_PROTOCOLS: Readonly<Record<string, readonly number[]>> = {
  ipip: [ipip],
  sit: [ipv6],
  ip6tnl: [ipip, ipv6],
  gre: [gre],
  gretap: [gre],
  erspan: [gre],
  ip6gre: [gre],
  ip6gretap: [gre],
  ip6erspan: [gre],
};
/** IKE, and ESP in UDP (RFC 3948). */
const IKE_PORTS = [500, 4500] as const;
const BGP = 179;
/** BFD of one hop and of several (RFC 5881, 5883). */
const BFD_PORTS: readonly number[] = [3784, 4784];

/** Whether the kind of a link may have entries. */
export function isTunnel({ kind, tunnelPort }: Pick<Link, 'kind' | 'tunnelPort'>): boolean {
  return (
    kind !== null && (tunnelPort !== undefined || kind === 'wireguard' || Object.hasOwn(LINK_PROTOCOLS, kind))
  );
}

/**
 * The entries that follow from what the kernel says (docs/semantics.md section 2.4), each once, in
 * a fixed order, with their origins.
 */
export function platformEntries(facts: KernelFacts): PlatformEntry[] {
  const found = [
    ...facts.links.filter(({ isUp }) => isUp).flatMap(ofLink),
    ...ofWireGuard(facts.wireGuard),
    ...ofIpsec(facts),
    ...ofRouting(facts),
    ...ofPrograms(facts.sockets),
  ];
  const same = Map.groupBy(found, (entry) => JSON.stringify({ ...entry, reason: '' }));
  // Those for Nodes first, lest WireGuard's peers, which choose their ports, crowd them out.
  return [...same]
    .sort(([a, [one]], [b, [other]]) => rankOf(one) - rankOf(other) || (a < b ? -1 : 1))
    .slice(0, MOST_PLATFORM_ENTRIES)
    .flatMap(([, [first, ...others]]) =>
      first === undefined ? [] : [{ ...first, reason: reasonsOf([first, ...others]) }],
    );
}

function rankOf(entry: PlatformEntry | undefined): number {
  return (entry?.peers === 'nodes' ? 0 : 2) + (entry?.direction === undefined ? 0 : 1);
}

function reasonsOf(entries: readonly PlatformEntry[]): string {
  const reasons = [...new Set(entries.map(({ reason }) => reason))].sort();
  const more = reasons.length > MOST_REASONS ? ` and ${reasons.length - MOST_REASONS} more` : '';
  return `${reasons.slice(0, MOST_REASONS).join(', ')}${more}`;
}

function ofLink({ kind, name, tunnelPort }: PlatformLink): PlatformEntry[] {
  if (kind === null) return [];
  const reason = `${kind} ${name}`;
  // The agent's own tunnel has an exemption of its own.
  if (tunnelPort === EGRESS_TUNNEL_PORT) return [];
  if (tunnelPort !== undefined) return [udp(tunnelPort, reason)];
  return (Object.hasOwn(LINK_PROTOCOLS, kind) ? (LINK_PROTOCOLS[kind] ?? []) : []).map((protocol) =>
    carrierEntry(protocol, reason),
  );
}

/** Peers are reached at their ports, which may be others than this node's. */
function ofWireGuard(devices: readonly WireGuardFacts[]): PlatformEntry[] {
  return devices.flatMap(({ name, port, endpoints }) => {
    if (port === 0 || port === EGRESS_WIREGUARD_PORT) return [];
    const reason = `wireguard ${name}`;
    const known = endpoints.slice(0, MOST_ENDPOINTS);
    const all = addressesOf(known);
    const elsewhere = Map.groupBy(
      known.filter((endpoint) => endpoint.port !== port && endpoint.port !== 0),
      (endpoint) => endpoint.port,
    );
    return [
      udp(port, reason),
      ...(all.length === 0 ? [] : [udp(port, reason, all)]),
      ...[...elsewhere].map(
        ([other, of]): PlatformEntry => ({ ...udp(other, reason, addressesOf(of)), direction: 'egress' }),
      ),
    ];
  });
}

function addressesOf(endpoints: WireGuardFacts['endpoints']): string[] {
  return [...new Set(endpoints.map(({ address }) => address))].sort();
}

/**
 * A program that negotiates keys has no states before its peers have answered. It listens at 500,
 * which takes a privilege; anybody may listen at 4500.
 */
function ofIpsec({ sockets, hasIpsecStates }: KernelFacts): PlatformEntry[] {
  const isAt = (wanted: number): boolean =>
    sockets.some(({ protocol, port }) => protocol === 'udp' && port === wanted);
  const [ike, inUdp] = IKE_PORTS;
  if (!hasIpsecStates && !isAt(ike)) return isAt(inUdp) ? [udp(inUdp, 'a socket at UDP 4500')] : [];
  const reason = hasIpsecStates ? 'IPsec states (xfrm)' : 'IKE, a socket at UDP 500';
  return [
    ...[esp, ah].map((protocol) => carrierEntry(protocol, reason)),
    ...IKE_PORTS.map((port) => udp(port, reason)),
  ];
}

function ofRouting({ sockets, hasBgpSession, rawProtocols }: KernelFacts): PlatformEntry[] {
  const hasBgp = hasBgpSession || sockets.some(({ protocol, port }) => protocol === 'tcp' && port === BGP);
  const bfd = sockets.filter(({ protocol, port }) => protocol === 'udp' && BFD_PORTS.includes(port));
  return [
    ...(hasBgp ? [{ protocol: 'tcp', ports: [BGP, BGP], peers: 'nodes', reason: 'BGP' } as const] : []),
    ...bfd.map(({ port }) => udp(port, 'BFD')),
    ...(rawProtocols.includes(vrrp) ? vrrpEntries('VRRP, a raw socket') : []),
  ];
}

function ofPrograms(sockets: readonly PlatformSocket[]): PlatformEntry[] {
  return PLATFORM_PROGRAMS.flatMap(({ program, protocol, ports: [first, last] }) =>
    sockets
      .filter((one) => one.protocol === protocol && one.port >= first && one.port <= last)
      .map(({ port }): PlatformEntry => {
        return { protocol, ports: [port, port], peers: 'nodes', reason: `port of ${program}` };
      }),
  );
}

function udp(port: number, reason: string, peers: PlatformEntry['peers'] = 'nodes'): PlatformEntry {
  return { protocol: 'udp', ports: [port, port], peers, reason };
}
