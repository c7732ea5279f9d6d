import type { Direction } from '../../../apis/objects.ts';
import { FAMILIES, type Family } from '../../../lib/net/address.ts';
import type { Match } from '../../render/ruleset.ts';
import { TUNNEL } from './tunnel.ts';

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

export const TUNNEL_PORT: Match = {
  ...{ match: 'port', protocol: 'udp', field: 'dport', ranges: [[TUNNEL.port, TUNNEL.port]] },
};

export function nodes(family: Family, field: 'saddr' | 'daddr'): Match {
  return inSet(family, field, NAME.nodes(family));
}

export function inSet(family: Family, field: 'saddr' | 'daddr', set: string): Match {
  return { match: 'address', family, field, in: { set } };
}

/** The tunnel's packets between Nodes, for the exemption `egressTunnel`. */
export function tunnelMatches(direction: Direction): Match[][] {
  const field = direction === 'ingress' ? 'saddr' : 'daddr';
  return FAMILIES.map((family) => [nodes(family, field), TUNNEL_PORT]);
}
