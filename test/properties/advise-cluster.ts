/** A random cluster of control-plane nodes, workers and edge nodes, and what runs in it. */
import type { ClusterObjects } from '../../apis/objects.ts';
import type { Random } from '../../perf/generate/random.ts';
import { toClusterObjects } from './pipeline.ts';

export interface DrawnNode {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly addresses: readonly string[];
}

export interface DrawnPod {
  readonly app: string;
  readonly namespace: string;
  readonly node: string;
  readonly addresses: readonly string[];
}

export interface DrawnCluster {
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

export function cluster(random: Random): DrawnCluster {
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
