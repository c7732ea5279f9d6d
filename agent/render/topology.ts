import type { CompiledRule } from '../../apis/compiled.ts';
import { type Config, EXEMPTIONS, type Exemption } from '../../apis/config.ts';
import { DHCP, DHCP_ANSWERED_AT } from '../../apis/exemptions.ts';
import type { Direction } from '../../apis/objects.ts';
import { type Cidr, FAMILIES, type Family, parseCidr } from '../../lib/net/address.ts';
import { toCidrs, toInterval, union } from '../../lib/net/interval.ts';
import { shortHash } from '../../lib/sharing/hash.ts';
import { firstPasses } from './first-pass.ts';
import { comment, ruleText } from './nft-text.ts';
import {
  type BaseChain,
  type Chain,
  fixedChain,
  type L4Protocol,
  type Match,
  type NftRule,
  plainChain,
  plainRule,
} from './ruleset.ts';

/**
 * The frame of the table: base chains that accept traffic not subject to policies, then jump to the
 * index of their traffic. A base chain is never deleted, not even in a transaction that adds it
 * again: the kernel would then drop every packet queued to NFQUEUE in that network namespace, also
 * those queued by other tables (agent/apply/plan/current-state.ts). So the base chains of the
 * Node's traffic exist even if no rule needs them; only their jumps change. The one for NodePort
 * traffic, which every packet of the node traverses, is added with the first rule for it, the one
 * for forwarded packets with the first rule at all; the one for masquerade follows its
 * configuration.
 */
interface BaseRow {
  readonly chain: string;
  readonly base: BaseChain;
  readonly direction: Direction;
  /** The first chain of the index for the packets of this hook. */
  readonly index: string;
}

/**
 * The traffic that one index is for: connections to the Node, connections from the Node, and
 * connections that NAT hands to a pod.
 */
export type IndexTraffic = 'ingress' | 'egress' | 'nodeport';
export const TRAFFICS: readonly IndexTraffic[] = ['ingress', 'egress', 'nodeport'];

export function trafficOf({ traffic, source }: Pick<CompiledRule, 'traffic' | 'source'>): IndexTraffic {
  return traffic === 'NodePort' ? 'nodeport' : source.direction;
}

export const BASE_CHAINS: Readonly<Record<IndexTraffic, BaseRow>> = {
  // Priority 0 (filter): after destination NAT (-100), so that the address is the real destination;
  // before firewalld (+10), whose drops still apply: an accept ends this base chain only.
  ingress: {
    chain: 'input',
    base: { type: 'filter', hook: 'input', priority: 0, policy: 'accept' },
    direction: 'ingress',
    index: 'ingress',
  },
  egress: {
    chain: 'output',
    base: { type: 'filter', hook: 'output', priority: 0, policy: 'accept' },
    direction: 'egress',
    index: 'egress',
  },
  // Directly after destination NAT, which marks the connections it has changed (ct status dnat),
  // and before routing: one hook covers pods here, on other nodes and on the host's own network,
  // and the source is still the client's (ADR 6).
  nodeport: {
    chain: 'prerouting',
    base: { type: 'filter', hook: 'prerouting', priority: -90, policy: 'accept' },
    direction: 'ingress',
    index: 'nodeport',
  },
};

/**
 * Forwarded packets, only for anti-spoofing (anti-spoofing.ts): what a pod sends to another host is
 * still told from a Node's own traffic here, and not there.
 */
export const FORWARD = {
  chain: 'forward',
  base: { type: 'filter', hook: 'forward', priority: 0, policy: 'accept' },
} as const satisfies Pick<BaseRow, 'chain' | 'base'>;

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
const loopback = (direction: Direction): Match => ({
  match: 'loopback',
  field: direction === 'ingress' ? 'iif' : 'oif',
});
const dhcp = (direction: Direction): Match[][] =>
  FAMILIES.map((family): Match[] => {
    const { client, server } = DHCP[family];
    if (direction === 'egress')
      return [{ match: 'nfproto', family }, port('dport', server), port('sport', client)];
    return [...answeredAt(family), port('sport', server), port('dport', client)];
  });

function answeredAt(family: Family): Match[] {
  const cidr = parseCidr(DHCP_ANSWERED_AT[family])?.cidr;
  return cidr === undefined ? [] : [{ match: 'address', family, field: 'daddr', in: { cidr } }];
}

interface Known {
  readonly config: Config;
  /**
   * For each family, matches for the destinations that are routed to local pods; empty if these are
   * unknown.
   */
  readonly localPods: readonly (readonly Match[])[];
  /** The matches of the exemption egressTunnel, in this direction; empty: there is no tunnel. */
  readonly tunnel: readonly (readonly Match[])[];
}

/** The matches of each exemption, by direction. */
const EXEMPTION_MATCHES: Readonly<
  Record<Exemption, (direction: Direction, known: Known) => readonly (readonly Match[])[]>
> = {
  loopback: (direction) => [[loopback(direction)]],
  // RFC 4861: router and neighbour solicitations and advertisements. Without them IPv6 fails in
  // both directions.
  neighborDiscovery: () => [[icmpv6([133, 134, 135, 136])]],
  // RFC 2710 and RFC 3810: without reports, a snooping switch stops delivering neighbour
  // solicitations.
  multicastListener: () => [[icmpv6([130, 131, 132, 143])]],
  dhcpClient: dhcp,
  localPods: (direction, { config, localPods }) =>
    direction === 'ingress' ? [] : localPodsMatches(config, localPods),
  egressTunnel: (_, { tunnel }) => tunnel,
};

/**
 * Packets to local pods. In the output hook the interface is the one from before destination NAT,
 * whatever the new destination (ADR 14).
 */
function localPodsMatches({ interfaceGroups }: Config, localPods: Known['localPods']): Match[][] {
  return [
    [{ match: 'interfaceGroup', field: 'oifgroup', groups: [interfaceGroups.pods], negated: false }],
    ...localPods.map((matches): Match[] => [{ match: 'ctDnat' }, ...matches]),
  ];
}

/** For packets to local pods: calls these chains, then accepts what they do not decide. */
export function toLocalPods(
  config: Config,
  localPods: Known['localPods'],
  chains: readonly string[],
): NftRule[] {
  return localPodsMatches(config, localPods).flatMap((matches) => [
    ...chains.map((chain) => plainRule({ kind: 'jump', chain }, ...matches)),
    accept(matches, comment('exemption localPods')),
  ]);
}

interface BaseParts extends Pick<Known, 'localPods' | 'tunnel'> {
  /** Rules before all others. */
  readonly before: readonly NftRule[];
  /** Rules before the exemptions. */
  readonly first: readonly NftRule[];
  readonly indexes: readonly string[];
  /** Those for packets to local pods, which are accepted after them; empty: before all indexes. */
  readonly podIndexes: readonly string[];
  /**
   * The servers (CIDRs) of which DNS packets are copied to the agent, which learns the addresses of
   * names in policies from the answers; empty: nothing is copied.
   */
  readonly nameServers: readonly string[];
  /** Rules after all exemptions and before all indexes. */
  readonly deadline: readonly NftRule[];
  /** Names of the VRF devices that the node's own packets pass first. */
  readonly vrfs: readonly string[];
}

/**
 * The base chain of a traffic and the chains it calls before the index. Traffic not subject to
 * policies is accepted first, except what `protocolExemptions` accepts; then the chains of the
 * indexes are called in order.
 */
export function baseChains(
  traffic: IndexTraffic,
  config: Config,
  { before, first, indexes, podIndexes, nameServers, deadline, vrfs, localPods, tunnel }: BaseParts,
): Chain[] {
  const known = { config, localPods, tunnel };
  const { chain: name, base, direction } = BASE_CHAINS[traffic];
  const jumps = indexes.map((index) => plainRule({ kind: 'jump', chain: index }));
  const accepted = accept([{ match: 'ctEstablished' }], null);
  if (traffic !== 'nodeport') {
    const { rules, chains } = copies(direction, config, nameServers);
    const isJudged = podIndexes.length > 0;
    const exempt = exemptions(
      direction,
      known,
      (name) => PROTOCOL_OF[name] === undefined && !(name === 'localPods' && isJudged),
    );
    const copied = direction === 'ingress' ? ownCopies(config) : { rules: [], chains: [] };
    const toPods = isJudged ? toLocalPods(config, localPods, podIndexes) : [];
    const exempted = [...exempt, ...copied.rules, ...deadline];
    const passes = direction === 'egress' ? firstPasses(config, vrfs) : { rules: [], chains: [] };
    const early = [...before, ...rules, accepted, ...passes.rules, ...first];
    const own = [...early, ...exempted, ...toPods, ...jumps];
    return [{ ...plainChain(name, own), base }, ...chains, ...passes.chains, ...copied.chains];
  }
  // Every packet of the node traverses this hook, and an idle chain costs one in a hundred
  // connections: there is none while no rule needs it.
  if (jumps.length === 0) return [];
  const entry = plainRule({ kind: 'jump', chain: NODEPORT_ENTRY }, { match: 'ctDnat' });
  const alone = notFromOutside(config);
  const others = exemptions(direction, known, (name) => !NOT_OF_NODEPORTS.includes(name)).map(beforeNat);
  return [
    { ...plainChain(name, [accepted, entry]), base },
    plainChain(NODEPORT_ENTRY, [...alone, ...others, ...jumps]),
  ];
}

/** The exemptions that are for packets of one protocol. */
const PROTOCOL_OF: Readonly<Partial<Record<Exemption, L4Protocol>>> = {
  neighborDiscovery: 'icmpv6',
  multicastListener: 'icmpv6',
  dhcpClient: 'udp',
};

/**
 * The exemptions that are for packets of one protocol, by protocol. Only such packets are compared
 * with them, as they stand behind the first index's look-up of the protocol (index/dispatch.ts).
 */
export function protocolExemptions(direction: Direction, config: Config): Map<L4Protocol, NftRule[]> {
  const known = { config, localPods: [], tunnel: [] };
  const protocols = new Set(Object.values(PROTOCOL_OF));
  return new Map(
    [...protocols].map((protocol) => [
      protocol,
      exemptions(direction, known, (name) => PROTOCOL_OF[name] === protocol),
    ]),
  );
}

/** `notFromOutside` includes loopback; tunnel and DHCP end at the Node itself. */
const NOT_OF_NODEPORTS: readonly Exemption[] = ['loopback', 'egressTunnel', 'dhcpClient'];

export const NODEPORT_ENTRY = 'nodeport-entry';

/** The tunnel's first: every packet of it comes this far, as none is tracked. */
const ASKED: readonly Exemption[] = ['egressTunnel', ...EXEMPTIONS.filter((name) => name !== 'egressTunnel')];

function exemptions(
  direction: Direction,
  known: Known,
  wanted: (name: Exemption) => boolean = () => true,
): NftRule[] {
  const names = ASKED.filter((name) => known.config.exemptions[name] && wanted(name));
  return names.flatMap((name) =>
    EXEMPTION_MATCHES[name](direction, known).map((matches) => accept(matches, comment(`exemption ${name}`))),
  );
}

/** Accepts connections that don't come from outside, whatever the exemptions. */
function notFromOutside({ interfaceGroups }: Config): NftRule[] {
  const { pods } = interfaceGroups;
  return [
    accept([loopback('ingress')], comment('from the node itself')),
    accept(
      [{ match: 'interfaceGroup', field: 'iifgroup', groups: [pods], negated: false }],
      comment('from local pods'),
    ),
  ];
}

/** The same rule, by the destination port that the client used. */
function beforeNat(rule: NftRule): NftRule {
  const matches = rule.matches.map((match): Match => {
    if (match.match !== 'port' || match.field !== 'dport') return match;
    return { match: 'originalPort', protocol: match.protocol, ranges: match.ranges };
  });
  return { ...rule, matches };
}

/**
 * More DNS packets than a node's applications cause, fewer than a flood; packets above the limit
 * are not read.
 */
const COPIES = { match: 'limit', perSecond: 5000, burst: 10_000 } as const;
/** In bytes; larger than any DNS message over UDP. */
const WHOLE_PACKET = 65_535;

const DNS_QUESTIONS = 'dns-questions';

/**
 * Copies of DNS packets come before all other rules, because an answer is a packet of an
 * established connection, and a question may be one too. The agent believes an answer only if it
 * saw the question (conntrack only knows the ports), so only questions to `nameServers` are copied,
 * by the address that the application asked: destination NAT may lead to any DNS pod.
 */
function copies(
  direction: Direction,
  config: Config,
  nameServers: readonly string[],
): { readonly rules: readonly NftRule[]; readonly chains: readonly Chain[] } {
  if (nameServers.length === 0) return { rules: [], chains: [] };
  if (direction === 'ingress')
    return { rules: [copyRule('answers', [{ match: 'dnsAnswer' }], config)], chains: [] };
  const rules = ([4, 6] as const).flatMap((family) =>
    prefixes(nameServers, family).map((cidr) => copyRule('questions', toServer(cidr), config)),
  );
  const asks = [port('dport', 53)];
  return {
    rules: [plainRule({ kind: 'jump', chain: DNS_QUESTIONS }, ...asks)],
    chains: [plainChain(DNS_QUESTIONS, rules)],
  };
}

function toServer(cidr: Cidr): Match[] {
  const family: Match = { match: 'nfproto', family: cidr.family };
  if (cidr.length === 0) return [family];
  return [family, { match: 'address', family: cidr.family, field: 'originalDaddr', in: { cidr } }];
}

function copyRule(what: 'questions' | 'answers', matches: readonly Match[], { names }: Config): NftRule {
  const statement = {
    kind: 'log',
    prefix: 'nodewall dns',
    group: names.group,
    copyRange: WHOLE_PACKET,
    queueThreshold: 1,
  } as const;
  return {
    matches: [...matches, COPIES],
    counter: false,
    statement,
    comment: comment(`DNS ${what}, for the names in policies`),
  };
}

export const POSTROUTING = 'postrouting';

/**
 * Chains that give traffic from pods the node's address when it leaves the cluster's own
 * interfaces. Empty if masquerade is off.
 */
export function masqueradeChains({ masquerade, interfaceGroups }: Config): Chain[] {
  if (!masquerade.enabled) return [];
  const { pods, clusternet, egress } = interfaceGroups;
  const from: Match = { match: 'interfaceGroup', field: 'iifgroup', groups: [pods], negated: false };
  const outside: Match = {
    match: 'interfaceGroup',
    field: 'oifgroup',
    groups: [pods, clusternet, ...(egress === undefined ? [] : [egress])].sort((a, b) => a - b),
    negated: true,
  };
  const rules = ([4, 6] as const).map((family): NftRule => {
    const cidrs = prefixes(masquerade.except, family);
    const to: Match[] = cidrs.length === 0 ? [] : [{ match: 'notIn', family, field: 'daddr', cidrs }];
    return {
      matches: [{ match: 'nfproto', family }, from, outside, ...to],
      counter: true,
      statement: { kind: 'masquerade', random: true },
      comment: comment('pods leave the node'),
    };
  });
  // A fixed chain, since the prefixes are an anonymous interval set, which must exist before it is
  // used.
  const fixed = fixedChain(`masquerade-${shortHash(10, rules.map(ruleText))}`, rules);
  const entry = plainChain(POSTROUTING, [plainRule({ kind: 'jump', chain: fixed.name })]);
  // srcnat (100), the priority that kube-proxy and the CNI use.
  const base: BaseChain = { type: 'nat', hook: 'postrouting', priority: 100, policy: 'accept' };
  return [{ ...entry, base }, fixed];
}

function prefixes(texts: readonly string[], family: Family): Cidr[] {
  const cidrs = texts.flatMap((text) => parseCidr(text)?.cidr ?? []).filter((cidr) => cidr.family === family);
  return union(cidrs.map(toInterval)).flatMap((interval) => toCidrs(family, interval));
}

function accept(matches: readonly Match[], words: string | null): NftRule {
  return { ...plainRule({ kind: 'accept' }, ...matches), comment: words };
}

/**
 * The machine's own copies of multicasts and broadcasts that it sends belong to the exemption
 * loopback: the kernel hands them in by the interface that they left. Others can send the same
 * with the same source, but by the wire, with an Ethernet header. So copies on interfaces without
 * Ethernet headers are not recognised.
 */
interface OwnCopies {
  /** Accepts the copies; for all others the rules go on. */
  readonly rules: readonly NftRule[];
  /** The chain that the rule calls. */
  readonly chains: readonly Chain[];
}

const OWN_COPIES = 'own-copies';

/** None where the exemption is off. */
export function ownCopies({ exemptions }: Config): OwnCopies {
  if (!exemptions.loopback) return { rules: [], chains: [] };
  const jump = plainRule(
    { kind: 'jump', chain: OWN_COPIES },
    { match: 'toMany' },
    { match: 'local', field: 'saddr' },
  );
  const chain = plainChain(OWN_COPIES, [
    plainRule({ kind: 'return' }, { match: 'notEther' }),
    plainRule({ kind: 'return' }, { match: 'etherHeader' }),
    { ...plainRule({ kind: 'accept' }), comment: comment('exemption loopback') },
  ]);
  return { rules: [jump], chains: [chain] };
}
