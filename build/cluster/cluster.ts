/**
 * A small Kubernetes cluster on one machine: three nodes with kubelet, containerd and kube-proxy, a
 * control plane on the first, CoreDNS.
 */

import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { present } from '../../lib/sharing/present.ts';
import { type ApiClient, apiClient } from '../../test/cluster/api-client.ts';
import { etcdFlags } from '../../test/cluster/cluster.ts';
import { succeeds, until } from '../../test/kernel/until.ts';
import { cacheFolder } from '../programs/cache.ts';
import { type Finished, run } from '../programs/command.ts';
import { removeAbandoned, scratchFolder } from '../programs/folder.ts';
import {
  apiServerFlags,
  CNI_PLUGINS,
  cniConfiguration,
  controllerManagerFlags,
  KUBERNETES_SERVICE,
  kubeletConfiguration,
  kubeProxyConfiguration,
  type PodNetwork,
  schedulerFlags,
} from './configuration.ts';
import { containerdConfiguration } from './containerd.ts';
import { type Keys, writeKeys } from './keys.ts';
import { checkLimits } from './limits.ts';
import {
  type ClusterHost,
  type ClusterNetwork,
  createNetwork,
  NODES,
  type NodeAddresses,
} from './network.ts';
import { type Machine, machine, type NodeDaemon } from './node.ts';
import type { Programs } from './programs.ts';
import { linkTemplate } from './template.ts';

interface RealClusterOptions {
  readonly programs: Programs;
  /** A containerd root with all images (template.ts). */
  readonly template: string;
  /** Told what has been reached, for who waits. */
  readonly progress?: (what: string) => void;
}

export interface RealNode extends ClusterHost, NodeAddresses {
  readonly daemons: Readonly<Record<'containerd' | 'kube-proxy' | 'kubelet', NodeDaemon>>;
  /** Runs a command in the node's namespaces. */
  run: Machine['run'];
  spawn: Machine['spawn'];
  command: Machine['command'];
  readonly initFile: string;
  /** Ends it as a loss of power does. */
  powerOff(): Promise<void>;
  /** Starts its daemons; resolves before the Node is Ready. */
  powerOn(): Promise<void>;
  /** Those that do not run, again until kubelet is well. */
  startDaemons(): Promise<void>;
  /** Sets what makes the interfaces of pods from now on. */
  setPodNetwork(network: PodNetwork): Promise<void>;
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

const READY = 120_000;

/** From programs and images to all Nodes Ready and CoreDNS serving: some 20 s. Needs root. */
export async function startRealCluster(options: RealClusterOptions): Promise<RealCluster> {
  const { programs, template } = options;
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
    const net = await createNetwork();
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
      machines.map(async ({ host, data, machine: one }) => {
        const daemons = await nodeDaemons(host, data, one, { group, keys, programs });
        return toNode(host, data, one, daemons);
      }),
    );
    await Promise.all(machines.map(({ machine: one }) => one.powerOn()));
    const [cp] = machines;
    if (cp === undefined) throw new Error('no control plane');
    const { kubernetes } = programs;
    const on = (name: string, flags: readonly string[]): NodeDaemon =>
      cp.machine.daemon(name, [kubernetes, ...flags]);
    const controlPlane = {
      etcd: on('etcd', ['etcd', ...etcdFlags(cp.data, 2379, 2380)]),
      apiserver: on('apiserver', ['kube-apiserver', ...apiServerFlags(keys, first.v4)]),
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
    await bringUp(cluster, progress);
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

async function bringUp(cluster: RealCluster, progress: (what: string) => void): Promise<void> {
  const { nodes } = cluster;
  const manifest = await readFile(join(import.meta.dirname, 'manifests/system.yaml'), 'utf8');
  try {
    await Promise.all([
      cluster.startControlPlane(),
      ...nodes.map(({ daemons }) => daemons.containerd.start()),
    ]);
    progress('the API server is ready');
    // Namespaces and priority classes are made by the API server itself, a moment after it is
    // ready.
    await until('the system is applied', () => succeeds(cluster.apply(manifest)));
    await Promise.all(nodes.map((node) => node.startDaemons()));
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

interface NodeParts {
  readonly group: string;
  readonly keys: Keys;
  readonly programs: Programs;
}

/** Writes their configurations, and gives them. */
async function nodeDaemons(
  node: ClusterHost & NodeAddresses,
  data: string,
  on: Machine,
  { group, keys, programs }: NodeParts,
): Promise<RealNode['daemons']> {
  const { kubernetes, debian } = programs;
  const runc = join(debian, 'usr/sbin/runc');
  const write = async (name: string, text: string): Promise<string> => {
    const path = join(data, name);
    await writeFile(path, text);
    return path;
  };
  await mkdir(join(data, 'cni'));
  await setPodNetwork(node, data, { traffic: 'routed' });
  const plugins = join(debian, 'usr/lib/cni');
  const folder = join(data, CNI_PLUGINS);
  await mkdir(folder, { recursive: true });
  for (const name of await readdir(plugins)) await symlink(join(plugins, name), join(folder, name));
  // CoreDNS has no other server to ask.
  await write('resolv.conf', 'nameserver 127.0.0.53\n');
  const containerd = await write(
    'containerd.toml',
    containerdConfiguration({ root: join(data, 'containerd'), state: '/run/containerd', data, runc }),
  );
  const kubelet = await write('kubelet.yaml', stringify(kubeletConfiguration({ node, keys, group, data })));
  const proxy = await write(
    'kube-proxy.yaml',
    stringify(kubeProxyConfiguration(node.name, keys.kubeconfig('kube-proxy'))),
  );
  return {
    containerd: on.daemon('containerd', [join(programs.containerd, 'containerd'), '--config', containerd]),
    'kube-proxy': on.daemon('kube-proxy', [kubernetes, 'kube-proxy', `--config=${proxy}`]),
    kubelet: on.daemon('kubelet', [
      kubernetes,
      'kubelet',
      `--config=${kubelet}`,
      `--kubeconfig=${keys.kubeconfig(`kubelet-${node.name}`)}`,
      `--hostname-override=${node.name}`,
      `--node-ip=${node.v4},${node.v6}`,
      '--v=2',
    ]),
  };
}

function toNode(
  host: ClusterHost & NodeAddresses,
  data: string,
  on: Machine,
  daemons: RealNode['daemons'],
): RealNode {
  const startDaemons = () => startNodeDaemons({ name: host.name, daemons, run: on.run });
  return {
    ...host,
    daemons,
    run: on.run,
    spawn: on.spawn,
    command: on.command,
    initFile: on.initFile,
    powerOff: on.powerOff,
    async powerOn() {
      await on.powerOn();
      await startDaemons();
    },
    startDaemons,
    setPodNetwork: (pods) => setPodNetwork(host, data, pods),
  };
}

/** Bash's own client: another program would start anew for each look. */
const KUBELET_IS_WELL =
  'exec 3<>/dev/tcp/127.0.0.1/10248 && printf "GET /healthz HTTP/1.0\\r\\n\\r\\n" >&3 && read -r -t 5 _ status _ <&3 && [ "$status" = 200 ]';

async function startNodeDaemons({
  name,
  daemons,
  run: on,
}: Pick<RealNode, 'name' | 'daemons' | 'run'>): Promise<void> {
  const { containerd, kubelet, 'kube-proxy': proxy } = daemons;
  if (!containerd.isRunning()) await containerd.start();
  if (!proxy.isRunning()) await proxy.start();
  // kubelet ends where containerd is not ready for it. An installer's unit starts it again; so does
  // this.
  await until(
    `kubelet on ${name} is well`,
    async () => {
      if (!kubelet.isRunning()) await kubelet.start();
      return (await on(['bash', '-c', KUBELET_IS_WELL])).code === 0;
    },
    { limit: READY },
  );
}

async function setPodNetwork(node: NodeAddresses, data: string, network: PodNetwork): Promise<void> {
  await writeFile(join(data, 'cni/10-pods.conflist'), JSON.stringify(cniConfiguration(node, network)));
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
