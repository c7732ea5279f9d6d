/** The clients and servers of the table in a real cluster. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { stringify } from 'yaml';
import type { RealCluster } from '../../../build/cluster/cluster.ts';
import { KUSTOMIZE_BASE } from '../../../build/cluster/install.ts';
import { CONTROL_NODE } from '../../../build/cluster/network.ts';
import type { RealNode } from '../../../build/cluster/real-node.ts';
import { until } from '../../kernel/until.ts';
import type { Attempt, Outcome } from './attempts.ts';
import { CLIENTS, type Client, type Setting, type Target, targetsFor } from './table.ts';

const NAMESPACE = '--namespace=connections';
const OVERLAYS = join(KUSTOMIZE_BASE, '../overlays');
const PROGRAM = [process.execPath, join(import.meta.dirname, 'attempts.ts')];
const LIMIT = 120_000;
/**
 * Each attempt has a port of its own from here on: a flow of UDP that was allowed before goes on
 * under rules that deny it.
 */
const FIRST_PORT = 12_000;

/** Addresses of Services that nobody but the router knows; servers.yaml has the first. */
const EXTERNAL = ['198.18.0.10', 'fd00:18::10'] as const;
const BALANCERS = {
  cluster: ['198.18.0.11', 'fd00:18::11'],
  local: ['198.18.0.12', 'fd00:18::12'],
} as const;

type Pair = readonly [v4: string, v6: string];

export interface Connection {
  readonly client: Client;
  readonly target: Target;
  readonly protocol: Attempt['protocol'];
  readonly address: string;
}

export interface ConnectionBed {
  readonly connections: readonly Connection[];
  /** What becomes of each, in their order. */
  attempt(connections: readonly Connection[]): Promise<Outcome[]>;
}

export const manifest = (name: string): Promise<string> =>
  readFile(join(import.meta.dirname, `${name}.yaml`), 'utf8');

/** Starts servers and clients; resolves when all run. */
export async function connectionBed(cluster: RealCluster, setting: Setting): Promise<ConnectionBed> {
  // The API server makes the account of a new namespace's pods a moment later.
  const text = await manifest('servers');
  await cluster.kubectlOutput(['create', 'namespace', 'connections']);
  const account = ['get', 'serviceaccount', 'default', NAMESPACE];
  await until('pods have an account', async () => (await cluster.kubectl(account)).code === 0);
  await cluster.apply(text);
  for (const [service, ips] of Object.entries(BALANCERS)) {
    const status = { loadBalancer: { ingress: ips.map((ip) => ({ ip })) } };
    const patch = ['patch', 'service', service, NAMESPACE, '--subresource=status'];
    await cluster.kubectlOutput([...patch, '--type=merge', '--patch', JSON.stringify({ status })]);
  }
  const ready = ['wait', '--for=condition=Ready', 'pod', '--all', NAMESPACE, `--timeout=${LIMIT}ms`];
  await cluster.kubectlOutput(ready);

  const web = await podAddresses(cluster, 'web');
  const clusterIps = await serviceAddresses(cluster, 'cluster');
  const addressesOf = ({ kind, at }: Target): Pair => {
    const { v4, v6 } = cluster.node(at);
    if (kind === 'external IP') return EXTERNAL;
    if (kind === 'load balancer') return BALANCERS.cluster;
    if (kind === 'load balancer, local') return BALANCERS.local;
    if (kind === 'ClusterIP') return clusterIps;
    return kind === 'pod' ? web : [v4, v6];
  };
  const connections = CLIENTS.flatMap((client) =>
    targetsFor(client, setting).flatMap((target) =>
      addressesOf(target).flatMap((address) =>
        (['tcp', 'udp'] as const).map((protocol) => ({ client, target, protocol, address })),
      ),
    ),
  );
  const runs = await clientRuns(cluster);
  let from = FIRST_PORT;
  return {
    connections,
    async attempt(wanted) {
      const outcomes = new Map<Connection, Outcome>();
      await Promise.all(
        CLIENTS.map(async (client) => {
          const own = wanted.filter((one) => one.client === client);
          if (own.length === 0) return;
          const attempts = own.map(({ protocol, address, target: { port } }) => {
            return { protocol, address, port, from: from++ };
          });
          const found = await runs[client](attempts);
          for (const [i, one] of own.entries()) outcomes.set(one, found[i] ?? 'dropped');
        }),
      );
      return wanted.map((one) => outcomes.get(one) ?? 'dropped');
    },
  };
}

interface PodObject {
  readonly status: { readonly podIPs?: readonly { readonly ip: string }[] };
}

async function podAddresses(cluster: RealCluster, name: string): Promise<Pair> {
  const { status } = await cluster.get<PodObject>('pod', name, NAMESPACE);
  return pair(status.podIPs?.map(({ ip }) => ip) ?? []);
}

async function serviceAddresses(cluster: RealCluster, name: string): Promise<Pair> {
  const { spec } = await cluster.get<{ spec: { clusterIPs: string[] } }>('service', name, NAMESPACE);
  return pair(spec.clusterIPs);
}

function pair([v4, v6]: readonly string[]): Pair {
  if (v4 === undefined || v6 === undefined) throw new Error('not an address of each family');
  return [v4, v6];
}

type Run = (attempts: readonly Attempt[]) => Promise<Outcome[]>;

async function clientRuns(cluster: RealCluster): Promise<Record<Client, Run>> {
  const parsed = (code: number | null, stdout: string, stderr: string): Outcome[] => {
    if (code !== 0) throw new Error(`attempts: status ${code}: ${stderr}`);
    return JSON.parse(stdout);
  };
  const onHost = (host: RealCluster['office']): Run => {
    return async (attempts) => {
      const { status, stdout, stderr } = await host.namespace.run(PROGRAM, {
        stdin: JSON.stringify(attempts),
      });
      return parsed(status, stdout, stderr);
    };
  };
  const onNode = (node: RealNode, before: readonly string[] = []): Run => {
    return async (attempts) => {
      const stdin = JSON.stringify(attempts);
      const { code, stdout, stderr } = await node.run([...before, ...PROGRAM], { stdin });
      return parsed(code, stdout, stderr);
    };
  };
  const inPod = async (node: RealNode, name: string): Promise<Run> => {
    const [address] = await podAddresses(cluster, name);
    return onNode(node, ['nsenter', `--net=${await podNamespace(node, address)}`, '--']);
  };
  const [one, other] = [cluster.node('worker-1'), cluster.node('worker-2')];
  return {
    office: onHost(cluster.office),
    outside: onHost(cluster.outside),
    'worker-1': onNode(one),
    'worker-2': onNode(other),
    'pod on worker-1': await inPod(one, 'client-1'),
    'pod on worker-2': await inPod(other, 'client-2'),
  };
}

/** Path on the node of the network namespace that has an address. */
async function podNamespace(node: RealNode, address: string): Promise<string> {
  const { stdout: names } = await node.run(['ls', '/run/netns']);
  for (const name of names.split('\n').filter((line) => line !== '')) {
    const path = `/run/netns/${name}`;
    const { stdout } = await node.run(['nsenter', `--net=${path}`, 'ip', '-oneline', 'address']);
    if (stdout.includes(` ${address}/`)) return path;
  }
  throw new Error(`${address}: in no network namespace of ${node.name}`);
}

interface InstallationOptions {
  readonly dataplane: 'nftables' | 'iptables';
  readonly hasProxy: boolean;
}

const ENVIRONMENT = [
  { name: 'KUBERNETES_SERVICE_HOST', value: CONTROL_NODE.v4 },
  { name: 'KUBERNETES_SERVICE_PORT', value: '6443' },
];

/** docs/platforms.md: without a proxy of Services. */
const WITHOUT_PROXY = [
  {
    target: { kind: 'Deployment', name: 'nodewall-controller' },
    patch: ENVIRONMENT.map((value) => ({
      op: 'add',
      path: '/spec/template/spec/containers/0/env/-',
      value,
    })),
  },
  {
    target: { kind: 'DaemonSet', name: 'nodewall-agent' },
    patch: [
      ...ENVIRONMENT.map((value) => ({ op: 'add', path: '/spec/template/spec/containers/0/env/-', value })),
      {
        op: 'replace',
        path: '/spec/template/spec/containers/0/args/1',
        value: '--controller=https://nodewall-controller.nodewall-system.svc:8443',
      },
    ],
  },
  {
    target: { kind: 'Service', name: 'nodewall-controller' },
    patch: [{ op: 'add', path: '/spec/clusterIP', value: 'None' }],
  },
];

/** Writes an overlay as an administrator does, with short trials of changes; its path. */
export async function writeOverlay(
  cluster: RealCluster,
  { dataplane, hasProxy }: InstallationOptions,
): Promise<string> {
  const folder = join(cluster.folder, 'overlay');
  await mkdir(folder, { recursive: true });
  const base = dataplane === 'iptables' ? join(OVERLAYS, 'iptables') : KUSTOMIZE_BASE;
  const configuration = {
    dataplane,
    ...(dataplane === 'iptables' ? { iptables: { variant: 'nft' } } : {}),
    interfaceGroupFile: '',
    guard: { window: 2, failAfter: 120 },
  };
  await writeFile(join(folder, 'agent-config.yaml'), stringify(configuration));
  const kustomization = {
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    resources: [relative(folder, base)],
    configMapGenerator: [
      {
        name: 'nodewall-agent',
        namespace: 'nodewall-system',
        behavior: 'replace',
        files: ['config.yaml=agent-config.yaml'],
      },
    ],
    patches: (hasProxy ? [] : WITHOUT_PROXY).map(({ target, patch }) => ({
      target,
      patch: stringify(patch),
    })),
  };
  await writeFile(join(folder, 'kustomization.yaml'), stringify(kustomization));
  return folder;
}
