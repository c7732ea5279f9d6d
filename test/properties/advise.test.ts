/**
 * A day's traffic of random clusters, with a scanner and a weekly job: the advised policies,
 * enforced, deny nothing of it but what is on the review list.
 */

import assert from 'node:assert/strict';
import fc from 'fast-check';
import { parseAllDocuments } from 'yaml';
import { FlowInventory } from '../../agent/flows/flow-inventory.ts';
import { flowOfKind, fromFlowQuery, type SeenFlow, toFlowFilter } from '../../agent/flows/flow-kind.ts';
import { nodeFlows } from '../../agent/inspect/explanation.ts';
import { explainMany } from '../../agent/observe/indexed-rules.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { PROTOCOL_NUMBERS } from '../../apis/flow.ts';
import { allFlows, type NodeFlows } from '../../apis/node-flows.ts';
import type { ClusterNetworkPolicy, ClusterObjects } from '../../apis/objects.ts';
import { adviceYaml } from '../../cli/advice-yaml.ts';
import { guarantees } from '../../cli/advise.ts';
import { AdviceCollector } from '../../controller/advise/advice-collector.ts';
import { type Advice, advise } from '../../controller/advise/advise.ts';
import { compile } from '../../controller/compile/compile.ts';
import { nodeView } from '../../controller/publish/node-view.ts';
import { type Random, seededRandom } from '../../perf/generate/random.ts';
import { count, type Seen } from './agree.ts';
import { toClusterObjects } from './pipeline.ts';
import { checkAsync, missingOf } from './runs.ts';

const DAY = 86_400_000;
/** When the nodes are asked. */
const NOW = Date.parse('2026-03-12T06:00:00Z');
const PODS = DEFAULT_CONFIG.interfaceGroups.pods;

/** Why a connection is not for a rule; null: it is a usual one. */
type Oddity = 'scanner' | 'stranger' | null;

interface Connection {
  readonly node: string;
  readonly flow: SeenFlow;
  readonly oddity: Oddity;
}

interface Day {
  readonly cluster: DrawnCluster;
  readonly connections: readonly Connection[];
  readonly scanner: string;
  readonly stranger: string;
  /** A job of the week before, which no inventory has. */
  readonly weekly: Connection;
  readonly inventories: readonly NodeFlows[];
}

async function day(seed: number): Promise<Day> {
  const random = seededRandom(`day ${seed}`);
  const drawn = cluster(random);
  const script = new Script(drawn, random);
  script.usual();
  // Sometimes a neighbour of those who may.
  const scanner = random.below(2) === 0 ? '10.10.0.77' : `198.51.100.${1 + random.below(250)}`;
  const stranger = `203.0.113.${1 + random.below(250)}`;
  script.scan(scanner);
  script.visit(stranger);
  const { connections } = script;
  const weekly: Connection = {
    node: drawn.workers[0]?.name ?? '',
    flow: flowOf(drawn.workers[0], { peer: '10.30.0.9', port: 873 }),
    oddity: null,
  };
  const inventories = await Promise.all(
    drawn.nodes.map(({ name }) => inventoryOf(name, connections, script.live)),
  );
  return { cluster: drawn, connections, scanner, stranger, weekly, inventories };
}

interface Some {
  readonly direction?: 'ingress' | 'egress';
  readonly traffic?: 'Host' | 'NodePort';
  readonly peer: string;
  readonly protocol?: number;
  readonly port?: number | null;
  readonly type?: number;
  readonly group?: number;
  readonly srcPort?: number;
}

function flowOf(node: DrawnNode | undefined, some: Some): SeenFlow {
  const {
    direction = 'ingress',
    traffic = 'Host',
    peer,
    protocol = PROTOCOL_NUMBERS.tcp,
    type = null,
  } = some;
  const local = node?.addresses.find((text) => text.includes(':') === peer.includes(':'));
  const port = type === null ? (some.port ?? null) : null;
  return {
    direction,
    traffic,
    peer,
    protocol,
    port,
    type,
    code: type === null ? null : 0,
    group: some.group ?? 0,
    verdict: 'Allow',
    local: local ?? '192.0.2.254',
    srcPort: some.srcPort ?? (port === null ? null : 40_000),
    originalDst: null,
    originalPort: null,
  };
}

class Script {
  readonly connections: Connection[] = [];
  /** Connections that stay open. */
  readonly live = new Set<SeenFlow>();
  readonly #cluster: DrawnCluster;
  readonly #random: Random;

  constructor(drawn: DrawnCluster, random: Random) {
    this.#cluster = drawn;
    this.#random = random;
  }

  usual(): void {
    const { nodes, controls, workers, edges } = this.#cluster;
    for (const node of nodes) {
      this.#ofEachNode(node);
      for (const control of controls) this.#add(node, { peer: addressOf(control), port: 10_250 }, 8);
    }
    for (const control of controls) this.#ofControl(control);
    for (const edge of edges) this.#ofEdge(edge);
    for (const worker of workers) this.#ofWorker(worker);
  }

  /** One peer on very many ports, those that are used among them. */
  scan(peer: string): void {
    const { nodes } = this.#cluster;
    const ports = [22, 80, 443, 9100, ...range(1 + this.#random.below(1000), 40 + this.#random.below(150))];
    for (const node of nodes.slice(0, 1 + this.#random.below(nodes.length)))
      for (const port of ports) this.#add(node, { peer, port }, 1 + this.#random.below(2), 'scanner');
  }

  visit(peer: string): void {
    this.#add(this.#random.pick(this.#cluster.nodes as [DrawnNode]), { peer, port: 22 }, 1, 'stranger');
  }

  #ofEachNode(node: DrawnNode): void {
    const { nodes, controls, pods, isDual } = this.#cluster;
    const prometheus = pods.filter(({ app }) => app === 'prometheus');
    for (const pod of prometheus) this.#fromPod(node, pod, 9100, 100);
    for (const pod of pods.filter((one) => one.app === 'node-agent' && one.node === node.name))
      this.#fromPod(node, pod, 2020, 20);
    // Probes of the kubelet.
    for (const pod of pods.filter((one) => one.node === node.name))
      this.#add(node, { direction: 'egress', peer: pod.addresses[0] ?? '', port: 8080, group: PODS }, 30);
    for (let i = 0; i < 4; i++)
      this.#add(node, { peer: `10.10.0.${10 + i}`, port: 22 }, 3 + this.#random.below(3));
    for (const other of nodes.filter((one) => one !== node)) {
      for (const peer of other.addresses) {
        const vxlan = { peer, protocol: PROTOCOL_NUMBERS.udp, port: 8472 };
        this.#add(node, vxlan, 10);
        this.#add(node, { ...vxlan, direction: 'egress' }, 10);
      }
    }
    for (const control of controls)
      if (control !== node) this.#add(node, { direction: 'egress', peer: addressOf(control), port: 6443 }, 5);
    this.#add(node, { peer: '10.10.1.5', protocol: PROTOCOL_NUMBERS.icmp, type: 8 }, 288);
    if (isDual) this.#add(node, { peer: 'fd00:10::5', protocol: PROTOCOL_NUMBERS.icmpv6, type: 128 }, 288);
    const ntp = { direction: 'egress', protocol: PROTOCOL_NUMBERS.udp, port: 123 } as const;
    for (const peer of ['192.0.2.10', '192.0.2.11']) this.#add(node, { ...ntp, peer }, 40);
    this.#add(
      node,
      { direction: 'egress', peer: '10.96.0.53', protocol: PROTOCOL_NUMBERS.udp, port: 53 },
      200,
    );
    this.#add(
      node,
      { direction: 'egress', peer: '10.0.0.1', protocol: PROTOCOL_NUMBERS.udp, port: 67, srcPort: 68 },
      2,
    );
    const mirrors = 3 + this.#random.below(12);
    for (let i = 0; i < mirrors; i++)
      this.#add(node, { direction: 'egress', peer: `198.18.${this.#random.below(40)}.${i}`, port: 443 }, 4);
  }

  #ofControl(node: DrawnNode): void {
    const { nodes, controls, pods } = this.#cluster;
    for (const other of nodes) {
      if (other === node) continue;
      this.#add(node, { peer: addressOf(other), port: 6443 }, 30);
      this.#add(node, { direction: 'egress', peer: addressOf(other), port: 10_250 }, 8);
    }
    for (const other of controls.filter((one) => one !== node)) {
      for (const port of [2379, 2380]) {
        this.#add(node, { peer: addressOf(other), port }, 5);
        this.#add(node, { direction: 'egress', peer: addressOf(other), port }, 5);
      }
    }
    for (const pod of pods.filter(({ app }) => app === 'coredns')) this.#fromPod(node, pod, 6443, 12);
    // A webhook, which the API server calls by its Service.
    for (const pod of pods.filter((one) => one.app === 'admission' && one.node !== node.name))
      this.#add(node, { direction: 'egress', peer: pod.addresses[0] ?? '', port: 9443 }, 12);
  }

  #ofEdge(node: DrawnNode): void {
    const clients = this.#random.below(3) === 0 ? 700 : 30;
    for (let i = 0; i < clients; i++) {
      const peer = `${20 + this.#random.below(180)}.${this.#random.below(250)}.${this.#random.below(250)}.${1 + (i % 250)}`;
      for (const port of [80, 443]) this.#add(node, { peer, port }, 1);
    }
    const bgp = { peer: '10.20.0.1', port: 179 };
    this.#add(node, bgp, 1, null, true);
    for (const other of this.#cluster.edges.filter((one) => one !== node))
      this.#add(node, { peer: addressOf(other), protocol: 112, port: null }, 20);
  }

  #ofWorker(node: DrawnNode): void {
    for (const peer of ['10.20.1.1', '10.20.1.2'])
      this.#add(node, { traffic: 'NodePort', peer, port: 30_080 }, 60);
    for (let i = 0; i < 3; i++)
      this.#add(
        node,
        { direction: 'egress', peer: `10.40.0.${1 + i}`, port: 5432 },
        3 + this.#random.below(3),
      );
    // Services of single nodes, and more than there is room for.
    const many = this.#random.below(12);
    for (let i = 0; i < many; i++) {
      for (let peer = 0; peer < 1 + (i % 3); peer++)
        this.#add(node, { peer: `10.50.${i}.${1 + peer}`, port: 7000 + 3 * i }, 5);
    }
  }

  #fromPod(node: DrawnNode, pod: DrawnPod, port: number, count: number): void {
    const group = pod.node === node.name ? PODS : 0;
    for (const peer of pod.addresses) {
      const isThere = node.addresses.some((text) => text.includes(':') === peer.includes(':'));
      if (isThere) this.#add(node, { peer, port, group }, count);
    }
  }

  #add(node: DrawnNode, some: Some, count: number, oddity: Oddity = null, isLive = false): void {
    const flow = flowOf(node, some);
    if (isLive) this.live.add(flow);
    for (let i = 0; i < count; i++) this.connections.push({ node: node.name, flow, oddity });
  }
}

function addressOf({ addresses: [first = ''] }: DrawnNode): string {
  return first;
}

function range(first: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => first + i);
}

async function inventoryOf(
  node: string,
  all: readonly Connection[],
  live: ReadonlySet<SeenFlow>,
): Promise<NodeFlows> {
  const own = all.filter((one) => one.node === node);
  const inventory = new FlowInventory(NOW - DAY);
  for (const [i, { flow }] of own.entries()) {
    // One after another, over the day.
    const now = NOW - DAY + Math.floor((i * DAY) / own.length);
    const kind = inventory.kindOf(flow, now);
    inventory.seen(kind, flow, { now, connections: 1 });
    kind.live = Number(live.has(flow));
  }
  const source = { inventory, node, read: async () => NOW, lastRead: () => NOW };
  return await allFlows((query) =>
    nodeFlows('/nonexistent', DEFAULT_CONFIG, toFlowFilter(fromFlowQuery(query), NOW), source),
  );
}

interface DrawnNode {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly addresses: readonly string[];
}

interface DrawnPod {
  readonly app: string;
  readonly namespace: string;
  readonly node: string;
  readonly addresses: readonly string[];
}

interface DrawnCluster {
  readonly isDual: boolean;
  readonly nodes: readonly DrawnNode[];
  readonly controls: readonly DrawnNode[];
  readonly workers: readonly DrawnNode[];
  readonly edges: readonly DrawnNode[];
  readonly pods: readonly DrawnPod[];
  /** Whether a label tells edge nodes from workers. */
  readonly hasEdgeLabel: boolean;
  readonly objects: ClusterObjects;
  readonly manifests: readonly object[];
}

const CONTROL = 'node-role.kubernetes.io/control-plane';

function cluster(random: Random): DrawnCluster {
  const isDual = random.below(2) === 0;
  const edgeLabel = random.pick<readonly [string, string] | null>([
    ['node-role.kubernetes.io/edge', ''],
    ['example.com/pool', 'edge'],
    null,
  ]);
  const hasWorkerLabel = random.below(2) === 0;
  const make = (
    role: string,
    count: number,
    from: number,
    labels: Readonly<Record<string, string>>,
  ): DrawnNode[] =>
    Array.from({ length: count }, (_, i) => {
      const name = `${role}-${i + 1}`;
      const own = { 'kubernetes.io/hostname': name, 'kubernetes.io/os': 'linux', ...labels };
      const v4 = `192.168.10.${from + i}`;
      return { name, labels: own, addresses: isDual ? [v4, `fd00:192::${from + i}`] : [v4] };
    });
  const worker = hasWorkerLabel ? { 'node-role.kubernetes.io/worker': '' } : {};
  const controls = make('cp', 1 + random.below(3), 10, { [CONTROL]: '' });
  const workers = make('worker', 2 + random.below(5), 20, worker);
  const edges = make('edge', 1 + random.below(3), 40, {
    ...worker,
    ...(edgeLabel === null ? {} : { [edgeLabel[0]]: edgeLabel[1] }),
  });
  const nodes = [...controls, ...workers, ...edges];
  const pods = podsOf(nodes, isDual, random);
  const manifests = [
    ...nodes.map((node, i) => nodeManifest(node, i, isDual)),
    ...['monitoring', 'kube-system', 'shop', 'webhooks'].map(namespaceManifest),
    ...pods.map(podManifest),
    ...serviceManifests(pods),
  ];
  const objects = toClusterObjects(manifests);
  return {
    isDual,
    nodes,
    controls,
    workers,
    edges,
    pods,
    hasEdgeLabel: edgeLabel !== null,
    objects,
    manifests,
  };
}

function podsOf(nodes: readonly DrawnNode[], isDual: boolean, random: Random): DrawnPod[] {
  const counts = new Map<string, number>();
  const place = (app: string, namespace: string, { name: node }: DrawnNode): DrawnPod => {
    const at = nodes.findIndex((one) => one.name === node);
    const number = 2 + (counts.get(node) ?? 0);
    counts.set(node, number - 1);
    const addresses = [
      `10.244.${at}.${number}`,
      ...(isDual ? [`fd00:244:0:${at}::${number.toString(16)}`] : []),
    ];
    return { app, namespace, node, addresses };
  };
  const anywhere = (): DrawnNode => random.pick(nodes as [DrawnNode]);
  return [
    place('prometheus', 'monitoring', anywhere()),
    place('grafana', 'monitoring', anywhere()),
    ...[1, 2].map(() => place('coredns', 'kube-system', anywhere())),
    ...nodes.map((node) => place('node-agent', 'kube-system', node)),
    ...Array.from({ length: 5 }, () => place('web', 'shop', anywhere())),
    ...[1, 2].map(() => place('admission', 'webhooks', anywhere())),
  ];
}

function nodeManifest({ name, labels, addresses }: DrawnNode, at: number, isDual: boolean): object {
  const podCIDRs = [`10.244.${at}.0/24`, ...(isDual ? [`fd00:244:0:${at}::/64`] : [])];
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels },
    spec: { podCIDRs },
    status: { addresses: addresses.map((address) => ({ type: 'InternalIP', address })) },
  };
}

function namespaceManifest(name: string): object {
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels: {} } };
}

function podManifest({ app, namespace, node, addresses }: DrawnPod, at: number): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: `${app}-${at}`,
      namespace,
      labels: { app, 'pod-template-hash': `5d8f${at}`, 'app.kubernetes.io/version': `1.${at}` },
    },
    spec: { nodeName: node, containers: [] },
    status: { phase: 'Running', podIP: addresses[0], podIPs: addresses.map((ip) => ({ ip })) },
  };
}

/** A webhook's Service, and a database outside of the cluster. */
function serviceManifests(pods: readonly DrawnPod[]): object[] {
  const admission = pods.filter(({ app }) => app === 'admission').map(({ addresses: [first = ''] }) => first);
  const service = (name: string, namespace: string, port: number, addresses: readonly string[]): object[] => [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name, namespace },
      spec: { clusterIPs: ['10.96.1.1'], ports: [{ protocol: 'TCP', port: 443 }] },
    },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name: `${name}-1`, namespace, labels: { 'kubernetes.io/service-name': name } },
      addressType: 'IPv4',
      endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
      ports: [{ protocol: 'TCP', port }],
    },
  ];
  return [
    ...service('admission', 'webhooks', 9443, admission),
    ...service('db', 'shop', 5432, ['10.40.0.1', '10.40.0.2', '10.40.0.3']),
  ];
}

const OPTIONS = {
  directions: ['ingress', 'egress'],
  maxCidrs: 4,
  tier: 'application',
  priority: 1000,
  unheard: { silent: [], notAsked: [] },
  now: NOW,
} as const;

describe('advised policies', function () {
  this.timeout(0);

  it('deny nothing of the day but the odd, have few rules, and say what is absent', async function () {
    const seen: Seen = new Map();
    await checkAsync(
      this,
      25,
      fc.nat(100_000),
      async (seed) => judge(await day(seed), seen),
      missingOf(seen, EXPECTED, 1),
    );
  });
});

const EXPECTED = [
  ...[
    'nodeSelector',
    'podSelector',
    'toServices',
    'ipBlock',
    'except',
    'NodePort',
    'icmp',
    'by name',
    'joined',
  ],
  ...['Drop scanner', 'Drop stranger', 'Allow usual', 'guaranteed failsafe', 'guaranteed localPods'],
];

function judge(of: Day, seen: Seen): void {
  const { cluster, inventories } = of;
  const collector = new AdviceCollector(cluster.objects, DEFAULT_CONFIG.interfaceGroups.pods);
  const guarantee = guarantees(cluster.objects, DEFAULT_CONFIG);
  for (const one of inventories) collector.add(one.node, one, guarantee(one.node));
  const advice = advise(collector, cluster.objects, OPTIONS);
  const text = adviceYaml(advice, []);
  const documents = parseAllDocuments(text).flatMap((document) => document.toJS() ?? []);
  // Throws if one is not valid.
  const { policies } = toClusterObjects([...cluster.manifests, ...documents]);
  assert.equal(policies.length, documents.length);
  note(advice, text, seen);
  for (const policy of policies) assert.equal(policy.spec.mode, 'Audit');
  for (const { name, policies: own } of advice.roles) {
    const rules = own.flatMap(({ ingress, egress }) => [...ingress, ...egress]);
    assert.ok(rules.length <= 12, `${rules.length} rules of ${name}`);
  }
  const nodes = advice.roles.flatMap((role) => role.nodes).sort();
  assert.deepEqual(nodes, cluster.nodes.map(({ name }) => name).sort(), 'every node has one role');
  replay(of, policies, { advice, text, seen });
  assert.match(text, /# - the window is 1 day: jobs that run weekly are not in it/);
  for (const peer of [of.scanner, of.stranger])
    assert.ok(
      advice.review.some((item) => item.peer === peer),
      `${peer} is on the review list`,
    );
  assert.ok(advice.review.some(({ reason, peer }) => reason === 'scanner' && peer === of.scanner));
  assert.doesNotMatch(text, /pod-template-hash|kubernetes\.io\/version/);
}

interface Judged {
  readonly advice: Advice;
  readonly text: string;
  readonly seen: Seen;
}

/** Every connection of the day against the policies as they are, but enforced. */
function replay(of: Day, policies: readonly ClusterNetworkPolicy[], { text, seen }: Judged): void {
  const enforced = policies.map((one) => ({ ...one, spec: { ...one.spec, mode: 'Enforce' as const } }));
  const compiled = compile({ ...of.cluster.objects, policies: enforced });
  const explainers = new Map(
    of.cluster.nodes.map(({ name }) => [name, explainMany(nodeView(compiled, name), DEFAULT_CONFIG)]),
  );
  const verdictOf = ({ node, flow }: Connection): string =>
    explainers.get(node)?.(flowOfKind({ last: flow })).verdict ?? 'no such node';
  for (const connection of new Set(of.connections)) {
    const { oddity, flow } = connection;
    const verdict = verdictOf(connection);
    count(seen, `${verdict} ${oddity ?? 'usual'}`);
    const wanted = oddity === null ? 'Allow' : 'Drop';
    assert.equal(verdict, wanted, `${JSON.stringify({ ...flow, oddity, node: connection.node })}\n${text}`);
  }
  assert.equal(verdictOf(of.weekly), 'Drop');
}

function note({ roles }: Advice, text: string, seen: Seen): void {
  for (const word of ['nodeSelector', 'podSelector', 'toServices', 'ipBlock', 'except', 'NodePort', 'icmp'])
    if (text.includes(word)) count(seen, word);
  if (text.includes('joined, to have few rules')) count(seen, 'joined');
  for (const { isByName, guaranteed } of roles) {
    if (isByName) count(seen, 'by name');
    for (const { by } of guaranteed) count(seen, `guaranteed ${by}`);
  }
}
