/**
 * A small Kubernetes cluster on one machine: three nodes with kubelet, containerd and kube-proxy, a
 * control plane on the first, CoreDNS.
 */

import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { present } from '../../lib/sharing/present.ts';
import { type ApiClient, apiClient } from '../../test/cluster/api-client.ts';
import { etcdFlags } from '../../test/cluster/cluster.ts';
import { succeeds, until } from '../../test/kernel/until.ts';
import { cacheFolder } from '../programs/cache.ts';
import { type Finished, run } from '../programs/command.ts';
import { removeAbandoned, scratchFolder } from '../programs/folder.ts';
import {
  apiServerFlags,
  controllerManagerFlags,
  KUBERNETES_SERVICE,
  schedulerFlags,
} from './configuration.ts';
import { writeKeys } from './keys.ts';
import { checkLimits } from './limits.ts';
import { type ClusterHost, type ClusterNetwork, CONTROL_NODE, createNetwork, NODES } from './network.ts';
import { machine, type NodeDaemon } from './node.ts';
import { type NodeKinds, READY, type RealNode, realNode } from './real-node.ts';
import { linkTemplate } from './template.ts';

interface RealClusterOptions extends NodeKinds {
  /** A containerd root with all images (template.ts). */
  readonly template: string;
  /** Told what has been reached, for who waits. */
  readonly progress?: (what: string) => void;
}

export interface RealCluster {
  /** cp-1, worker-1, worker-2. */
  readonly nodes: readonly RealNode[];
  readonly office: ClusterHost;
  readonly outside: ClusterHost;
  /** Folder of the cluster; removed at close(). */
  readonly folder: string;
  /** Paths. */
  readonly kubernetes: string;
  readonly kubeconfig: string;
  node(name: string): RealNode;
  /**
   * Runs kubectl as administrator on the control-plane node; a status other than 0 is no error
   * here.
   */
  kubectl(args: readonly string[], options?: { stdin?: string }): Promise<Finished>;
  /** The output of kubectl; rejects where it fails. */
  kubectlOutput(args: readonly string[], options?: { stdin?: string }): Promise<string>;
  /** kubectl get -o json, parsed. */
  get<T>(...args: readonly string[]): Promise<T>;
  /** kubectl apply --server-side of one or more documents. */
  apply: ApiClient['apply'];
  /** kubectl delete --grace-period=0 --wait=false. */
  remove: ApiClient['remove'];
  /** Whether the API server answers a path with success. */
  isWell(path: string): Promise<boolean>;
  /** Programs of the control plane. */
  readonly controlPlane: Readonly<
    Record<'etcd' | 'apiserver' | 'controller-manager' | 'scheduler', NodeDaemon>
  >;
  /**
   * Starts what of it does not run, as after a restart of its node. Resolves when the API server is
   * ready.
   */
  startControlPlane(): Promise<void>;
  /** The last lines of all logs of daemons. */
  logs(lines?: number): Promise<string>;
  close(): Promise<void>;
}

/** From programs and images to all Nodes Ready and CoreDNS serving: some 20 s. Needs root. */
export async function startRealCluster(options: RealClusterOptions): Promise<RealCluster> {
  const { programs, template, carrier, proxy } = options;
  const progress = options.progress ?? (() => {});
  const groupOf = (pid: number): string => `nodewall-${pid}`;
  const group = groupOf(process.pid);
  // On the template's file system, for hard links.
  const parent = cacheFolder();
  await removeAbandoned(parent, '.realcluster-', groupOf);
  await checkLimits();
  const scratch = await scratchFolder('.realcluster-', { parent, cgroup: group });
  const folder = scratch.path;
  let network: ClusterNetwork | null = null;
  const off: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    await Promise.all(off.map((one) => one()));
    await network?.close();
    await scratch.remove();
  };
  try {
    const net = await createNetwork({ hasPodRoutes: carrier === null });
    network = net;
    const [first] = net.nodes;
    if (first === undefined) throw new Error('no nodes');
    const keys = await writeKeys({
      folder: join(folder, 'keys'),
      nodes: NODES,
      address: first.v4,
      serviceAddress: KUBERNETES_SERVICE,
    });
    const machines = await Promise.all(
      net.nodes.map(async (host) => {
        const data = join(folder, host.name);
        await mkdir(data);
        await linkTemplate(template, join(data, 'containerd'));
        const one = machine({ host, programs, data, group });
        off.push(one.powerOff);
        return { host, data, machine: one };
      }),
    );
    progress('images are linked');
    const nodes = await Promise.all(
      machines.map(({ host, data, machine: one }) => realNode(host, data, one, { ...options, group, keys })),
    );
    await Promise.all(machines.map(({ machine: one }) => one.powerOn()));
    const [cp] = machines;
    if (cp === undefined) throw new Error('no control plane');
    const { kubernetes } = programs;
    const on = (name: string, flags: readonly string[]): NodeDaemon =>
      cp.machine.daemon(name, [kubernetes, ...flags]);
    const controlPlane = {
      etcd: on('etcd', ['etcd', ...etcdFlags(cp.data, 2379, 2380)]),
      apiserver: on('apiserver', ['kube-apiserver', ...apiServerFlags(keys, first.v4, proxy)]),
      'controller-manager': on('controller-manager', [
        'kube-controller-manager',
        ...controllerManagerFlags(keys),
      ]),
      scheduler: on('scheduler', ['kube-scheduler', ...schedulerFlags(keys)]),
    };
    const kubeconfig = keys.kubeconfig('admin');
    const kubectl: RealCluster['kubectl'] = (args, { stdin } = {}) =>
      run(first.namespace.command([kubernetes, 'kubectl', ...args]), {
        env: { ...process.env, HOME: folder, KUBECONFIG: kubeconfig },
        ...present({ stdin }),
      });
    const api = apiClient({
      kubeconfig,
      inside: { namespace: first.namespace, socketPath: join(folder, 'api.socket') },
    });
    const kubectlOutput: RealCluster['kubectlOutput'] = async (args, more) => {
      const { code, stdout, stderr } = await kubectl(args, more);
      if (code !== 0) throw new Error(`kubectl ${args.join(' ')}: ${stderr || `status ${code}`}`);
      return stdout;
    };
    const allDaemons = (): [string, NodeDaemon][] => [
      ...Object.entries(controlPlane),
      ...nodes.flatMap(({ name, daemons }) =>
        Object.entries(daemons).map(([daemon, one]): [string, NodeDaemon] => [`${daemon} on ${name}`, one]),
      ),
    ];
    const cluster: RealCluster = {
      nodes,
      office: net.office,
      outside: net.outside,
      folder,
      kubernetes,
      kubeconfig,
      node(name) {
        const found = nodes.find((node) => node.name === name);
        if (found === undefined) throw new Error(`no node ${name}`);
        return found;
      },
      kubectl,
      kubectlOutput,
      get: api.get,
      apply: api.apply,
      remove: api.remove,
      isWell: api.isWell,
      controlPlane,
      startControlPlane: () => startControlPlane(cluster),
      async logs(lines = 15) {
        const texts = await Promise.all(
          allDaemons().map(async ([name, one]) => `--- ${name}\n${await one.log(lines)}`),
        );
        return texts.join('\n');
      },
      close,
    };
    await bringUp(cluster, options, progress);
    return cluster;
  } catch (error) {
    await close();
    throw error;
  }
}

async function startControlPlane({ controlPlane, isWell }: RealCluster): Promise<void> {
  const start = async (name: keyof RealCluster['controlPlane']): Promise<void> => {
    if (!controlPlane[name].isRunning()) await controlPlane[name].start();
  };
  await start('etcd');
  await start('apiserver');
  await until('the API server is ready', () => isWell('/readyz'), { limit: READY });
  await start('controller-manager');
  await start('scheduler');
}

async function bringUp(
  cluster: RealCluster,
  { carrier, proxy }: RealClusterOptions,
  progress: (what: string) => void,
): Promise<void> {
  const { nodes } = cluster;
  const read = (name: string) => readFile(join(import.meta.dirname, 'manifests', name), 'utf8');
  const system = await read('system.yaml');
  const manifest = proxy === 'none' ? onItsNode(system) : system;
  try {
    await Promise.all([
      cluster.startControlPlane(),
      ...nodes.map(({ daemons }) => daemons.containerd.start()),
    ]);
    progress('the API server is ready');
    // Namespaces and priority classes are made by the API server itself, a moment after it is
    // ready.
    await until('the system is applied', () => succeeds(cluster.apply(manifest)));
    if (carrier !== null) await cluster.apply(await read('carrier.yaml'));
    await Promise.all([
      ...nodes.map((node) => node.startDaemons()),
      ...(carrier === null ? [] : nodes.map((node) => assignPodCidrs(cluster, node))),
    ]);
    await untilNodesReady(cluster);
    progress('all Nodes are Ready');
    await cluster.kubectlOutput(['label', 'node', 'cp-1', 'node-role.kubernetes.io/control-plane=']);
    await cluster.kubectlOutput(['label', 'node', 'worker-1', 'worker-2', 'node-role.kubernetes.io/worker=']);
    const rollout = ['rollout', 'status', '--namespace=kube-system', 'deployment/coredns', '--timeout=120s'];
    await cluster.kubectlOutput(rollout);
    progress('CoreDNS is ready');
  } catch (error) {
    throw new Error(`the cluster does not come up\n${await cluster.logs()}`, { cause: error });
  }
}

/** CoreDNS where no Service has an address: at its node's, where it asks the API server, too. */
function onItsNode(manifest: string): string {
  const documents = parseAllDocuments(manifest);
  const deployment = documents.find((one) => one.get('kind') === 'Deployment');
  const pod = ['spec', 'template', 'spec'];
  deployment?.setIn([...pod, 'hostNetwork'], true);
  deployment?.setIn(
    [...pod, 'containers', 0, 'env'],
    [
      { name: 'KUBERNETES_SERVICE_HOST', value: CONTROL_NODE.v4 },
      { name: 'KUBERNETES_SERVICE_PORT', value: '6443' },
    ],
  );
  return documents.join('');
}

/** As a controller manager that allocates them; here each Node has its own in every cluster. */
async function assignPodCidrs(cluster: RealCluster, { name, podCidrs }: RealNode): Promise<void> {
  const spec = { podCIDR: podCidrs[0], podCIDRs: podCidrs };
  const args = ['patch', 'node', name, '--patch', JSON.stringify({ spec })];
  await until(`Node ${name} is there`, () => succeeds(cluster.get('node', name)), { limit: READY });
  await cluster.kubectlOutput(args);
}

interface NodeObject {
  readonly metadata: { readonly name: string };
  readonly status: {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
    readonly nodeInfo: Readonly<
      Record<'kubeletVersion' | 'containerRuntimeVersion' | 'kernelVersion', string>
    >;
  };
}

/** Kubernetes, the container runtime and Linux, as the control plane's node reports them. */
export async function versionsOf(cluster: RealCluster): Promise<string> {
  const { status } = await cluster.get<NodeObject>('node', 'cp-1');
  const { kubeletVersion, containerRuntimeVersion, kernelVersion } = status.nodeInfo;
  const runtime = containerRuntimeVersion.replace('://', ' ');
  return `Kubernetes ${kubeletVersion.slice(1)}, ${runtime}, Linux ${kernelVersion}`;
}

/** Those that are powered on; default all. */
export async function untilNodesReady(
  cluster: RealCluster,
  names: readonly string[] = cluster.nodes.map(({ name }) => name),
): Promise<void> {
  await until(
    `Ready: ${names.join(', ')}`,
    async () => {
      const { items } = await cluster.get<{ items: NodeObject[] }>('nodes');
      const ready = items.filter(({ status }) =>
        status.conditions?.some((one) => one.type === 'Ready' && one.status === 'True'),
      );
      return names.every((name) => ready.some(({ metadata }) => metadata.name === name));
    },
    { limit: READY },
  );
}
