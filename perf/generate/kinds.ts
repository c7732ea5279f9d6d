/** The kinds of rule sets that must cost the same whatever their size. */
import { classBenchRules } from './classbench.ts';
import { type Random, seededRandom } from './random.ts';
import type { Connection, GeneratedRule, Labels, Member, PeerList, PortSpan, RuleSet } from './ruleset.ts';

export const KINDS = [
  'ports',
  'onePort',
  'sources',
  'ranges',
  'portless',
  'shared',
  'ipv6',
  'acl',
  'fw',
  'ipc',
] as const;
export type Kind = (typeof KINDS)[number];

/** What each is, for reports. */
export const KIND_TITLES: Readonly<Record<Kind, string>> = {
  ports: 'a port for each rule, 200 lists of peers',
  onePort: 'one port, a source for each rule',
  sources: 'no ports, a source for each rule',
  ranges: 'overlapping ranges of ports',
  portless: 'a port for each rule, one in ten without ports',
  shared: 'pods and nodes that are in many sets',
  ipv6: 'IPv6, a port for each rule and one port by turns',
  acl: 'access list (ClassBench acl1)',
  fw: 'firewall (ClassBench fw1)',
  ipc: 'IP chains (ClassBench ipc1)',
};

/**
 * Addresses of test/netns/topology.ts; no rule but the last one is for the client's
 * connections.
 */
const V4 = { source: '10.100.0.10', destination: '10.90.0.10' };
const V6 = { source: 'fd90:100::10', destination: 'fd90::10' };
const FIRST_PORT = 10_000;
/** Of the last rule, unless the kind needs another; no rule of another kind names it alone. */
const PORT = 40_007;
const LISTS = 200;
const MEMBERS = 5;

interface Parts {
  /** All but the last. */
  readonly rules: readonly GeneratedRule[];
  readonly pods?: readonly Member[];
  readonly nodes?: readonly Member[];
  readonly last?: Partial<GeneratedRule>;
  readonly connection?: Partial<Connection>;
}

/**
 * `count` rules, 0 to 10,000; equal arguments are equal sets. The last is the only one that matches
 * `connection`; without rules it is accepted anyway.
 */
export function ruleSet(kind: Kind, count: number, seed = ''): RuleSet {
  const {
    rules,
    pods = [],
    nodes = [],
    last,
    connection,
  } = PARTS[kind](Math.max(0, count - 1), seededRandom(`${kind}${seed}`));
  const meant: Connection = { ...V4, port: PORT, ...connection };
  const prefix = meant.source.includes(':') ? 128 : 32;
  const own: GeneratedRule = {
    action: 'Allow',
    peer: { kind: 'blocks', cidrs: [`${meant.source}/${prefix}`] },
    protocol: 'TCP',
    ports: one(meant.port),
    sourcePorts: null,
    ...last,
  };
  return {
    name: `${kind}-${count}`,
    rules: count === 0 ? [] : [...rules, own],
    pods,
    nodes,
    connection: meant,
  };
}

const PARTS: Readonly<Record<Kind, (count: number, random: Random) => Parts>> = {
  ports(count) {
    const lists = peerLists();
    const rules = times(count, (i) => tcp(i, lists.peer(i % LISTS), one(FIRST_PORT + i)));
    return { ...lists, rules };
  },
  onePort: (count) => ({ ...ownSources(count, (i, peer) => tcp(i, peer, one(PORT))) }),
  sources: (count) => ({
    ...ownSources(count, (i, peer) => ({ ...tcp(i, peer, null), protocol: null })),
    last: { protocol: null, ports: null },
  }),
  ranges(count, random) {
    const spans = times(count, () => {
      const width = random.weighted([
        [10, 40],
        [100, 30],
        [1000, 20],
        [5000, 10],
      ]);
      const from = 1024 + random.below(64_000 - width);
      return { from, to: from + width - 1 };
    });
    return {
      ...ownSources(count, (i, peer) => tcp(i, peer, spans[i] ?? one(1))),
      last: { ports: { from: PORT - 10, to: PORT + 10 } },
    };
  },
  portless(count, random) {
    const lists = peerLists();
    const isPortless = times(count, () => random.next() < 0.1);
    const rules = times(count, (i) =>
      isPortless[i]
        ? { ...tcp(i, ownBlock(i), null), protocol: null }
        : tcp(i, lists.peer(i % LISTS), one(FIRST_PORT + i)),
    );
    return { ...lists, rules };
  },
  shared: (count, random) => sharedMembers(count, random),
  ipv6(count) {
    const pods = times(Math.ceil(count / 10) * 2, (i) => ({
      labels: { app: `app-${Math.floor(i / 2)}` },
      addresses: [v4Host(10, 128, i), `fd00:128::${(i + 1).toString(16)}`],
    }));
    const rules = times(count, (i) => {
      const peer: PeerList =
        i % 10 === 9
          ? { kind: 'pods', labels: { app: `app-${Math.floor(i / 10)}` } }
          : { kind: 'blocks', cidrs: v6Blocks(i) };
      return tcp(i, peer, one(i % 2 === 0 ? FIRST_PORT + i : PORT));
    });
    return { rules, pods, connection: V6 };
  },
  acl: (count, random) => ({ rules: classBenchRules('acl', count, random, { ...V4, port: PORT }) }),
  fw: (count, random) => ({ rules: classBenchRules('fw', count, random, { ...V4, port: PORT }) }),
  ipc: (count, random) => ({ rules: classBenchRules('ipc', count, random, { ...V4, port: PORT }) }),
};

/** Allow, Allow, Drop, Allow, Allow, Reject, and so on. */
function tcp(index: number, peer: PeerList, ports: PortSpan | null): GeneratedRule {
  const action = index % 3 < 2 ? 'Allow' : index % 6 === 2 ? 'Drop' : 'Reject';
  return { action, peer, protocol: 'TCP', ports, sourcePorts: null };
}

/** 200 lists of five pods, nodes or blocks by turns, as perf/generate/cluster.ts has them. */
function peerLists() {
  const members = (label: string, remainder: number, [a, b, v6]: readonly [number, number, string]) =>
    times(LISTS, (list) => list)
      .filter((list) => list % 3 === remainder)
      .flatMap((list) =>
        times(MEMBERS, (i): Member => {
          const host = list * MEMBERS + i;
          return {
            labels: { [label]: `${label}-${list}` },
            addresses: [v4Host(a, b, host), `${v6}::${(host + 1).toString(16)}`],
          };
        }),
      );
  const peer = (list: number): PeerList => {
    if (list % 3 === 0) return { kind: 'pods', labels: { app: `app-${list}` } };
    if (list % 3 === 1) return { kind: 'nodes', labels: { zone: `zone-${list}` } };
    return { kind: 'blocks', cidrs: times(MEMBERS, (i) => `172.${16 + i}.${list}.0/28`) };
  };
  return {
    pods: members('app', 0, [10, 128, 'fd00:128']),
    nodes: members('zone', 1, [192, 168, 'fd00:168']),
    peer,
  };
}

/** A source of its own for each rule: every tenth has three pods, the others a block. */
function ownSources(count: number, rule: (index: number, peer: PeerList) => GeneratedRule): Parts {
  const apps = Math.ceil(count / 10);
  const pods = times(apps * 3, (i) => ({
    labels: { app: `app-${Math.floor(i / 3)}` },
    addresses: [v4Host(10, 128, i)],
  }));
  const peer = (i: number): PeerList =>
    i % 10 === 9 ? { kind: 'pods', labels: { app: `app-${Math.floor(i / 10)}` } } : ownBlock(i);
  return { rules: times(count, (i) => rule(i, peer(i))), pods };
}

/** Within a /24 that no other rule has: all of it, a sixteenth, or three hosts. */
function ownBlock(index: number): PeerList {
  const net = `${20 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`;
  const cidrs = [[`${net}.0/24`], [`${net}.64/28`], [`${net}.1/32`, `${net}.7/32`, `${net}.200/32`]][
    index % 3
  ];
  return { kind: 'blocks', cidrs: cidrs ?? [] };
}

/** A /48, a /64 or three hosts that no other rule has; every fourth rule has IPv4 besides. */
function v6Blocks(index: number): string[] {
  const net = `2001:db8:${(index + 1).toString(16)}`;
  const own = [[`${net}::/48`], [`${net}:7::/64`], [`${net}::1/128`, `${net}::2/128`, `${net}:9::7/128`]][
    index % 3
  ];
  const v4 = index % 4 === 0 ? [`20.${(index >> 8) & 255}.${index & 255}.0/24`] : [];
  return [...(own ?? []), ...v4];
}

const SHARED = { pods: 1000, nodes: 200, ports: 500 } as const;

/**
 * Each pod has eight labels and each node three; a rule selects by one or two of them, so an
 * address is in up to 36 sets. 500 ports are gone through by turns, so a port and an address are in
 * many rules. The client is a pod too, in sets of other ports.
 */
function sharedMembers(count: number, random: Random): Parts {
  const podLabels = { app: 60, team: 12, tier: 4, version: 6, shard: 15, stage: 3, region: 5, owner: 9 };
  const nodeLabels = { zone: 4, rack: 25, pool: 10 };
  const labels = (of: Readonly<Record<string, number>>): Labels =>
    Object.fromEntries(Object.entries(of).map(([key, values]) => [key, `${key}-${random.below(values)}`]));
  const members = (length: number, of: Readonly<Record<string, number>>, host: (index: number) => string) =>
    times(length, (i): Member => ({ labels: labels(of), addresses: [host(i)] }));
  const pods = members(SHARED.pods, podLabels, (i) => v4Host(10, 128, i));
  const nodes = members(SHARED.nodes, nodeLabels, (i) => v4Host(192, 168, i));
  const client: Member = {
    labels: { ...labels(podLabels), app: 'client' },
    addresses: [V4.source],
  };
  const select = (of: Readonly<Record<string, number>>, wanted: readonly string[]): Labels =>
    Object.fromEntries(wanted.map((key) => [key, `${key}-${random.below(of[key] ?? 1)}`]));
  const selectPods = (isOfClientsPort: boolean): PeerList => {
    const second = random.pick(['team', 'tier', 'version', 'shard', 'stage', 'region', 'owner']);
    const first = isOfClientsPort || random.next() < 0.5 ? ['app'] : [];
    return { kind: 'pods', labels: select(podLabels, [...first, second]) };
  };
  const selectNodes = (): PeerList => {
    const wanted = random.pick([['zone', 'rack'], ['rack'], ['pool'], ['zone', 'pool']]);
    return { kind: 'nodes', labels: select(nodeLabels, wanted) };
  };
  const port = FIRST_PORT + SHARED.ports - 1;
  const rules = times(count, (i) => {
    const own = FIRST_PORT + (i % SHARED.ports);
    return tcp(i, i % 4 === 3 ? selectNodes() : selectPods(own === port), one(own));
  });
  const last = { peer: { kind: 'pods', labels: { app: 'client' } } } as const;
  return { rules, pods: [...pods, client], nodes, last, connection: { port } };
}

function one(port: number): PortSpan {
  return { from: port, to: port };
}

/** The host part counts from 1. */
function v4Host(a: number, b: number, index: number): string {
  const host = index + 1;
  return `${a}.${b + (host >> 16)}.${(host >> 8) & 255}.${host & 255}`;
}

function times<T>(length: number, make: (index: number) => T): T[] {
  return Array.from({ length }, (_, i) => make(i));
}
