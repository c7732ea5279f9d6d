/** A node with an agent that keeps link groups, and pods as network namespaces. */

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createNamespace, type Namespace, type RunResult } from '../netns/namespace.ts';
import { addressPlan } from '../netns/topology.ts';
import { NODEWALL } from '../program.ts';
import { type Dataplane, NFTABLES } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { NODE_NAME } from './manifests.ts';
import { connects, listen } from './talk.ts';
import { until } from './until.ts';

export const POD_PORT = 7777;
const POD_ADDRESS = '10.244.0.2';

export interface InterfaceNode {
  readonly node: EnforcedNode;
  readonly namespace: Namespace;
  /** Another namespace, as a pod's; one for each name. */
  pod(name: string): Promise<Namespace>;
  /** `ip …` in the node's namespace; several commands as lines. */
  ip(...lines: readonly string[]): Promise<void>;
  groups(): Promise<Record<string, number>>;
  untilGroup(name: string, group: number, agent?: RunningAgent): Promise<number>;
  /** What the file of group names holds. */
  names(): Promise<string>;
  /** The options that name a configuration which leaves /etc/iproute2 alone. */
  config(more?: object): Promise<string[]>;
  start(more?: object): Promise<RunningAgent>;
  /** `nodewall agent --once`, by the process of EnforcedNode's `again`. */
  once(more?: object, ...options: readonly string[]): Promise<void>;
  /** By the same process. */
  cleanup(): Promise<void>;
  /** What `nodewall interfaces` prints: by the same process, or started by another command. */
  interfaces(options: readonly string[], before?: readonly string[]): Promise<string>;
  /** `nodewall agent --once`, started by another command; whatever its status. */
  agentOnce(before: readonly string[]): Promise<RunResult>;
  close(): Promise<void>;
}

export const SHIPPED_NAMES = '# device group names\n0\tdefault\n';

/** The node has no interface but lo. */
export async function createInterfaceNode(dataplane: Dataplane = NFTABLES): Promise<InterfaceNode> {
  const node = await createEnforcedNode(addressPlan({ clients: 0 }), dataplane);
  const folder = await mkdtemp(join(tmpdir(), 'nodewall-interfaces-'));
  const file = join(folder, 'group');
  await writeFile(file, SHIPPED_NAMES);
  const pods = new Map<string, Namespace>();
  const namespace = node.topology.node;
  async function config(more: object = {}): Promise<string[]> {
    const path = join(folder, 'config.yaml');
    await writeFile(path, JSON.stringify({ ...dataplane.config, interfaceGroupFile: file, ...more }));
    return ['--config', path];
  }

  async function groups(): Promise<Record<string, number>> {
    const { stdout } = await namespace.run(['ip', '-N', '-j', 'link', 'show']);
    const links = JSON.parse(stdout) as { ifname: string; group: string }[];
    return Object.fromEntries(
      links.map(({ ifname, group }) => [ifname, group === 'default' ? 0 : Number(group)]),
    );
  }

  return {
    node,
    namespace,
    groups,
    config,
    names: () => readFile(file, 'utf8'),
    async pod(name) {
      const found = pods.get(name) ?? (await createNamespace(name));
      pods.set(name, found);
      return found;
    },
    ip: async (...lines) =>
      void (await namespace.run(['ip', '-batch', '-'], { stdin: `${lines.join('\n')}\n` })),
    untilGroup: (name, group, agent) =>
      until(`${name} is in group ${group}`, async () => (await groups())[name] === group, {
        detail: () => agent?.log().slice(-3000) ?? '',
      }),
    async start(more) {
      const agent = node.start('--log-level', 'debug', ...(await config(more)));
      // Before it, the kernel has rules that only track connections.
      await until('the agent enforces', async () => agent.log().includes('"message":"enforced"'), {
        detail: agent.log,
      });
      return agent;
    },
    async once(more, ...options) {
      await node.again(...(await config(more)), ...options);
    },
    async cleanup() {
      await node.ask('cleanup', ...(await config()));
    },
    async interfaces(options, before) {
      if (before === undefined) return (await node.ask('interfaces', ...options)).stdout;
      const argv = [...before, NODEWALL, 'interfaces', '--state-dir', node.stateDir, ...options];
      return (await namespace.run(argv, { cwd: '/' })).stdout;
    },
    async agentOnce(before) {
      const common = ['--manifests', node.manifests, '--node', NODE_NAME, '--state-dir', node.stateDir];
      const argv = [...before, NODEWALL, 'agent', '--once', ...common, ...(await config())];
      return await namespace.run(argv, { anyStatus: true });
    },
    async close() {
      await Promise.all([...pods.values()].map((pod) => pod.close()));
      await node.close();
      await rm(folder, { recursive: true });
    },
  };
}

/** Gives the pod's eth0 its address and something that listens. */
export async function serve(pod: Namespace): Promise<void> {
  const lines = ['link set lo up', 'link set eth0 up', `addr add ${POD_ADDRESS}/32 dev eth0`];
  const routes = ['route add 10.90.0.10 dev eth0', 'route add default via 10.90.0.10 dev eth0 onlink'];
  await pod.run(['ip', '-batch', '-'], { stdin: `${[...lines, ...routes].join('\n')}\n` });
  await listen(pod, [POD_PORT]);
}

/** Whether the node reaches what listens in the pod. */
export function reaches(node: Namespace): Promise<boolean> {
  return connects(node, POD_ADDRESS, POD_PORT, 900);
}
