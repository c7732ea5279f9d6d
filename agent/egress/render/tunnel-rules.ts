import type { Direction } from '../../../apis/objects.ts';
import { type Cidr, FAMILIES, type Family } from '../../../lib/net/address.ts';
import type { Match } from '../../render/ruleset.ts';
import { CLAIM_PORT, TUNNEL } from './tunnel.ts';

/** Names of the chains, sets and maps that the frame refers to. */
export const NAME = {
  choose: 'egress-choose',
  arrive: 'egress-arrive',
  restore: 'egress-restore',
  translate: 'egress-translate',
  gone: 'egress-gone',
  nodes: (family: Family) => `egress-nodes-v${family}`,
  floating: (family: Family) => `egress-floating-v${family}`,
  live: (family: Family) => `egress-live-v${family}`,
} as const;

/** fe80::/10 */
const LINK_LOCAL: Cidr = { family: 6, value: 0xfe80n << 112n, length: 10 };

export const TUNNEL_PORT: Match = {
  ...{ match: 'port', protocol: 'udp', field: 'dport', ranges: [[TUNNEL.port, TUNNEL.port]] },
};

export function nodes(family: Family, field: 'saddr' | 'daddr'): Match {
  return inSet(family, field, NAME.nodes(family));
}

export function inSet(family: Family, field: 'saddr' | 'daddr', set: string): Match {
  return { match: 'address', family, field, in: { set } };
}

/** The port of the agents' claims (agent/egress/pods). */
export const CLAIMS: Match = {
  ...{ match: 'port', protocol: 'udp', field: 'dport', ranges: [[CLAIM_PORT, CLAIM_PORT]] },
};

/** Between link-local addresses: of the tunnel's ends. */
export const BETWEEN_AGENTS: readonly Match[] = [
  { match: 'address', family: 6, field: 'saddr', in: { cidr: LINK_LOCAL } },
  CLAIMS,
];

/** The tunnel's packets between Nodes, and those of agents in it, for the exemption `egressTunnel`. */
export function tunnelMatches(direction: Direction): Match[][] {
  const field = direction === 'ingress' ? 'saddr' : 'daddr';
  return [...FAMILIES.map((family) => [nodes(family, field), TUNNEL_PORT]), [...BETWEEN_AGENTS]];
}
