/**
 * A node of the cluster: its daemons, in the order in which they start, and the files that they
 * read.
 */
import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { present } from '../../lib/sharing/present.ts';
import { until } from '../../test/kernel/until.ts';
import { CARRIER_STATE, type Carrier, carrierCommand, mtuOf } from './carrier.ts';
import { CNI_PLUGINS, kubeletConfiguration, kubeProxyConfiguration } from './configuration.ts';
import { containerdConfiguration } from './containerd.ts';
import type { Keys } from './keys.ts';
import type { ClusterHost, NodeAddresses } from './network.ts';
import type { Machine, NodeDaemon } from './node.ts';
import {
  cniConfiguration,
  POD_NETWORKS,
  type PodInterfaces,
  type PodNetworkName,
  type ServiceProxy,
} from './pod-network.ts';
import type { Programs } from './programs.ts';

/** The parts of which all nodes of a cluster are made. */
export interface NodeKinds {
  readonly programs: Programs;
  readonly podNetwork: PodNetworkName;
  /** The program between nodes that this network needs; null where routes do. */
  readonly carrier: Carrier | null;
  readonly proxy: ServiceProxy;
}

interface NodeDaemons extends Readonly<Record<'containerd' | 'kubelet', NodeDaemon>> {
  readonly 'kube-proxy'?: NodeDaemon;
  readonly carrier?: NodeDaemon;
}

export interface RealNode extends ClusterHost, NodeAddresses {
  readonly daemons: NodeDaemons;
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
  setPodInterfaces(interfaces: PodInterfaces): Promise<void>;
}

/** So long a daemon may take (milliseconds). */
export const READY = 120_000;

interface NodeParts extends NodeKinds {
  readonly group: string;
  readonly keys: Keys;
}

/** Writes the files of a node that is on; no daemon runs before startDaemons(). */
export async function realNode(
  host: ClusterHost & NodeAddresses,
  data: string,
  on: Machine,
  parts: NodeParts,
): Promise<RealNode> {
  const { podNetwork, carrier } = parts;
  const daemons = await nodeDaemons(host, data, on, parts);
  return toNode({ host, data, on, daemons, podNetwork, carrier });
}

/** Writes their configurations, and gives them. */
async function nodeDaemons(
  node: ClusterHost & NodeAddresses,
  data: string,
  on: Machine,
  { group, keys, programs, podNetwork, carrier, proxy }: NodeParts,
): Promise<NodeDaemons> {
  const { kubernetes, debian } = programs;
  const runc = join(debian, 'usr/sbin/runc');
  const write = async (name: string, text: string): Promise<string> => {
    const path = join(data, name);
    await writeFile(path, text);
    return path;
  };
  await mkdir(join(data, 'cni'));
  const { traffic } = POD_NETWORKS[podNetwork];
  // Those of a carrier are written when it has said how large packets may be.
  if (carrier === null) await writeInterfaces({ host: node, data, podNetwork }, { traffic });
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
  const kubelet = await write(
    'kubelet.yaml',
    stringify(kubeletConfiguration({ node, keys, group, data, proxy })),
  );
  const proxyDaemon = async (mode: Exclude<ServiceProxy, 'none'>): Promise<NodeDaemon> => {
    const configuration = kubeProxyConfiguration(node.name, mode, keys.kubeconfig('kube-proxy'));
    const file = await write('kube-proxy.yaml', stringify(configuration));
    return on.daemon('kube-proxy', [kubernetes, 'kube-proxy', `--config=${file}`]);
  };
  const carrierDaemon = async (one: Carrier): Promise<NodeDaemon> =>
    on.daemon('carrier', await carrierCommand({ carrier: one, node, keys, data, proxy }));
  return {
    ...(proxy === 'none' ? {} : { 'kube-proxy': await proxyDaemon(proxy) }),
    ...(carrier === null ? {} : { carrier: await carrierDaemon(carrier) }),
    containerd: on.daemon('containerd', [join(programs.containerd, 'containerd'), '--config', containerd]),
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

interface NodeFiles extends Pick<NodeKinds, 'podNetwork'> {
  readonly host: ClusterHost & NodeAddresses;
  readonly data: string;
}

interface NodeWithDaemons extends NodeFiles, Pick<NodeKinds, 'carrier'> {
  readonly on: Machine;
  readonly daemons: NodeDaemons;
}

function toNode(parts: NodeWithDaemons): RealNode {
  const { host, on, daemons } = parts;
  const startDaemons = () => startNodeDaemons(parts);
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
    setPodInterfaces: (interfaces) => writeInterfaces(parts, interfaces),
  };
}

/** Bash's own client: another program would start anew for each look. */
const KUBELET_IS_WELL =
  'exec 3<>/dev/tcp/127.0.0.1/10248 && printf "GET /healthz HTTP/1.0\\r\\n\\r\\n" >&3 && read -r -t 5 _ status _ <&3 && [ "$status" = 200 ]';

async function startNodeDaemons(parts: NodeWithDaemons): Promise<void> {
  const { host, on, daemons } = parts;
  const { containerd, kubelet, 'kube-proxy': proxy } = daemons;
  if (!containerd.isRunning()) await containerd.start();
  if (proxy?.isRunning() === false) await proxy.start();
  // kubelet ends where containerd is not ready for it. An installer's unit starts it again; so does
  // this.
  await until(
    `kubelet on ${host.name} is well`,
    async () => {
      if (!kubelet.isRunning()) await kubelet.start();
      return (await on.run(['bash', '-c', KUBELET_IS_WELL])).code === 0;
    },
    { limit: READY },
  );
  await startCarrier(parts);
}

/** It ends where its Node has no networks of pods yet, and is started again. */
async function startCarrier(parts: NodeWithDaemons): Promise<void> {
  const { host, on, daemons, carrier, podNetwork } = parts;
  const { carrier: daemon } = daemons;
  if (carrier === null || daemon === undefined) return;
  let state = '';
  await until(
    `${carrier.name} on ${host.name} has done its work`,
    async () => {
      if (!daemon.isRunning()) await daemon.start();
      const { code, stdout } = await on.run(CARRIER_STATE);
      state = stdout;
      return code === 0 && state !== '';
    },
    { limit: READY },
  );
  const { traffic } = POD_NETWORKS[podNetwork];
  await writeInterfaces(parts, { traffic, ...present({ mtu: mtuOf(state) }) });
}

async function writeInterfaces(
  { host, data, podNetwork }: NodeFiles,
  interfaces: PodInterfaces,
): Promise<void> {
  const text = JSON.stringify(cniConfiguration(host, podNetwork, interfaces));
  await writeFile(join(data, 'cni/10-pods.conflist'), text);
}
