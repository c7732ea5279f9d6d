import { type Config, DEFAULT_EGRESS_GROUP } from '../../../apis/config.ts';
import type { Direction } from '../../../apis/objects.ts';
import { FAMILIES, type Family, parseCidr } from '../../../lib/net/address.ts';
import type { Match, MatchOf } from '../../render/ruleset.ts';
import { CLAIM_PORT, TUNNEL, WIREGUARD_TUNNEL } from './tunnel.ts';

/** Names of the chains, sets and maps that the frame refers to. */
export const EGRESS_NAMES = {
  choose: 'egress-choose',
  known: 'egress-known',
  marked: 'egress-marked',
  arrive: 'egress-arrive',
  restore: 'egress-restore',
  translate: 'egress-translate',
  /** By take: whether a packet leaves with an address of it. */
  sealed: 'egress-sealed',
  gone: 'egress-gone',
  /** An answer from the gateway, at the pod's node. */
  answered: 'egress-answered',
  /** Packets that others forward to the tunnel's port of a Node. */
  foreign: 'egress-foreign',
  /** On its way into the tunnel. */
  enter: 'egress-enter',
  untracked: 'egress-untracked',
  /** Packets to the node itself. */
  toNode: 'egress-to-node',
  /** The tunnel's outer packets that come in, and those of ends that are known. */
  outer: 'egress-outer',
  knownOuter: 'egress-known-outer',
  outerEnds: (family: Family) => `egress-outer-v${family}`,
  /** Packets that the machine sends into the tunnel, and the tunnel's outer packets. */
  sentInner: 'egress-sent-inner',
  sent: 'egress-sent',
  sentOuter: 'egress-sent-outer',
  inside: (family: Family) => `egress-inside-v${family}`,
  ends: 'egress-ends',
  nodes: (family: Family) => `egress-nodes-v${family}`,
  floating: (family: Family) => `egress-floating-v${family}`,
  live: (family: Family) => `egress-live-v${family}`,
} as const;

export const TUNNEL_PORT: Match = {
  match: 'port',
  protocol: 'udp',
  field: 'dport',
  ranges: [[TUNNEL.port, TUNNEL.port]],
};

/** Packets that carry the encrypted tunnel. */
export const WIREGUARD_PORT: Match = {
  match: 'port',
  protocol: 'udp',
  field: 'dport',
  ranges: [[WIREGUARD_TUNNEL.port, WIREGUARD_TUNNEL.port]],
};

const WIREGUARD_NETWORK = parseCidr(`${WIREGUARD_TUNNEL.network}::/64`)?.cidr;

/** An address of a WireGuard device. */
export function ofWireGuard(field: 'saddr' | 'daddr'): Match {
  if (WIREGUARD_NETWORK === undefined) throw new Error('the network of WireGuard devices is not valid');
  return { match: 'address', family: 6, field, in: { cidr: WIREGUARD_NETWORK } };
}

/** The packet comes by, or leaves by, the WireGuard device. */
export function byWireGuard(field: 'iifgroup' | 'oifgroup', negated = false): Match {
  return { match: 'interfaceGroup', field, groups: [WIREGUARD_TUNNEL.group], negated };
}

/** The tunnel's own ports: for outer packets, and for claims in them. */
export const OWN_PORTS: Match = {
  match: 'port',
  protocol: 'udp',
  field: 'dport',
  ranges: [[TUNNEL.port, CLAIM_PORT]],
};

export const CLAIMS: MatchOf<'port'> = {
  match: 'port',
  protocol: 'udp',
  field: 'dport',
  ranges: [[CLAIM_PORT, CLAIM_PORT]],
};

export function nodes(family: Family, field: 'saddr' | 'daddr'): Match {
  return inSet(family, field, EGRESS_NAMES.nodes(family));
}

export function inSet(family: Family, field: 'saddr' | 'daddr', set: string): Match {
  return { match: 'address', family, field, in: { set } };
}

/** Echoes with the known ends of the tunnel; the interface is to be the tunnel's. */
export function echoes(direction: Direction): Match[] {
  const field = direction === 'ingress' ? 'saddr' : 'daddr';
  return [
    inSet(6, field, EGRESS_NAMES.ends),
    {
      match: 'icmp',
      protocol: 'icmpv6',
      types: [ECHO.request, ECHO.reply].map((type) => ({ type, code: null })),
    },
  ];
}

/**
 * Claims of agents (agent/egress/pods), as echoes. Their socket has this port: no other process can
 * send from it while the agent runs.
 */
export function claims(direction: Direction): Match[] {
  const from: Match = { ...CLAIMS, field: 'sport' };
  return [inSet(6, direction === 'ingress' ? 'saddr' : 'daddr', EGRESS_NAMES.ends), from, CLAIMS];
}

/**
 * The tunnel's packets between Nodes, and what agents send through it, for the exemption
 * `egressTunnel`.
 */
export function tunnelMatches(
  direction: Direction,
  { interfaceGroups: { egress: group }, egress: { encryption } }: Pick<Config, 'interfaceGroups' | 'egress'>,
): Match[][] {
  const [field, link] = direction === 'ingress' ? IN : OUT;
  const isEncrypted = encryption === 'WireGuard';
  const tunnel: Match = {
    match: 'interfaceGroup',
    field: link,
    groups: [group ?? DEFAULT_EGRESS_GROUP],
    negated: false,
  };
  return [
    ...FAMILIES.map((family) => [isEncrypted ? WIREGUARD_PORT : TUNNEL_PORT, nodes(family, field)]),
    ...(isEncrypted ? [[byWireGuard(link), TUNNEL_PORT, ofWireGuard(field)]] : []),
    [tunnel, ...echoes(direction)],
    [tunnel, ...claims(direction)],
  ];
}

const IN = ['saddr', 'iifgroup'] as const;
const OUT = ['daddr', 'oifgroup'] as const;
/** Types of ICMPv6. */
const ECHO = { request: 128, reply: 129 } as const;
