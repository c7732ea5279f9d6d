import type { Config, Exemption } from '../../apis/config.ts';
import type { Direction } from '../../apis/objects.ts';
import { comment } from './name.ts';
import type { BaseChain, Chain, Match, NftRule } from './ruleset.ts';

/**
 * The skeleton of the table: two base chains that accept what no policy judges, then jump to the index of their direction.
 * Base chains are never deleted, not even within a transaction that adds them again: the kernel then drops every packet
 * queued to NFQUEUE in that namespace, other tables' too. What changes is what they jump to.
 */
interface BaseRow {
  readonly chain: string;
  readonly base: BaseChain;
  /** The chain of the index this hook's packets go through. */
  readonly index: string;
}

// Priority 0 (filter): after destination NAT (-100), so that the address is the one that is really reached;
// before firewalld (+10), whose drops still hold: an accept ends this base chain only.
export const BASE_CHAINS: Readonly<Record<Direction, BaseRow>> = {
  ingress: {
    chain: 'input',
    base: { type: 'filter', hook: 'input', priority: 0, policy: 'accept' },
    index: 'ingress',
  },
  egress: {
    chain: 'output',
    base: { type: 'filter', hook: 'output', priority: 0, policy: 'accept' },
    index: 'egress',
  },
};

const port = (field: 'sport' | 'dport', number: number): Match => ({
  match: 'port',
  protocol: 'udp',
  field,
  ranges: [[number, number]],
});
const icmpv6 = (types: readonly number[]): Match => ({
  match: 'icmp',
  protocol: 'icmpv6',
  types: types.map((type) => ({ type, code: null })),
});
/** The client's port is 68, the server's 67; DHCPv6: 546 and 547 (RFC 2131, RFC 8415). */
const dhcp = (direction: Direction): Match[][] => {
  const [client, server] =
    direction === 'ingress' ? (['dport', 'sport'] as const) : (['sport', 'dport'] as const);
  return [
    [{ match: 'nfproto', family: 4 }, port(server, 67), port(client, 68)],
    [{ match: 'nfproto', family: 6 }, port(server, 547), port(client, 546)],
  ];
};

/** What each exemption accepts, by direction. */
const EXEMPTION_MATCHES: Readonly<
  Record<Exemption, (direction: Direction, config: Config) => readonly (readonly Match[])[]>
> = {
  loopback: (direction) => [[{ match: 'loopback', field: direction === 'ingress' ? 'iif' : 'oif' }]],
  // RFC 4861: router and neighbour solicitations and advertisements. Without them IPv6 is dead in both directions.
  neighborDiscovery: () => [[icmpv6([133, 134, 135, 136])]],
  // RFC 2710 and RFC 3810: without reports a snooping switch stops delivering neighbour solicitations.
  multicastListener: () => [[icmpv6([130, 131, 132, 143])]],
  dhcpClient: dhcp,
  localPods: (direction, { interfaceGroups }) =>
    direction === 'ingress'
      ? []
      : [[{ match: 'interfaceGroup', field: 'oifgroup', group: interfaceGroups.pods }]],
};

export function baseChain(direction: Direction, config: Config): Chain {
  const { chain, base, index } = BASE_CHAINS[direction];
  const rules: NftRule[] = [accept([{ match: 'ctEstablished' }], null)];
  for (const exemption of Object.keys(EXEMPTION_MATCHES) as Exemption[]) {
    if (!config.exemptions[exemption]) continue;
    for (const matches of EXEMPTION_MATCHES[exemption](direction, config)) {
      rules.push(accept(matches, comment(`exemption ${exemption}`)));
    }
  }
  rules.push({ matches: [], counter: false, statement: { kind: 'jump', chain: index }, comment: null });
  return { name: chain, base, fixed: false, rules, source: null };
}

function accept(matches: readonly Match[], words: string | null): NftRule {
  return { matches, counter: false, statement: { kind: 'accept' }, comment: words };
}
