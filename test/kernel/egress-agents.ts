/**
 * Stand-alone agents on the nodes of a lab for egress gateways, all from one directory of
 * manifests.
 */
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NODEWALL } from '../program.ts';
import type { EgressLab } from './egress-lab.ts';
import { type RunningAgent, toRunningAgent } from './enforced-node.ts';
import { until } from './until.ts';

export interface EgressAgents {
  /** The directory that all agents read. */
  readonly manifests: string;
  /** A configuration file like theirs. */
  readonly config: string;
  stateDir(node: string): string;
  /** Where the agent of a node reads what CNI did. */
  cniResults(node: string): string;
  /** Writes a manifest as an editor does: beside, then renamed. */
  write(name: string, objects: readonly object[]): Promise<void>;
  start(node: string, ...options: readonly string[]): RunningAgent;
  agent(node: string): RunningAgent;
  /** Runs `nodewall` on a node with its state directory and configuration. */
  run(node: string, ...args: readonly string[]): Promise<string>;
  /** Waits until the rules in force on a node say, or no longer say, something. */
  untilInForce(node: string, text: RegExp, isThere?: boolean): Promise<void>;
  close(): Promise<void>;
}

export const EGRESS_CONFIG = {
  interfaceGroupFile: '',
  interfaceGroups: { pods: { group: 8, match: [] } },
  featureGates: { EgressGateway: true },
};

/**
 * @param settings of the configuration, beside those that all labs have
 * @param isAbsent pods that are in no manifest at first; default: none
 */
export async function egressAgents(
  lab: EgressLab,
  settings: Readonly<Record<string, unknown>> & { readonly egress?: object } = {},
  isAbsent: (pod: string) => boolean = () => false,
): Promise<EgressAgents> {
  const folder = await mkdtemp(join(tmpdir(), 'nodewall-egress-'));
  const manifests = join(folder, 'manifests');
  const config = join(folder, 'config.yaml');
  await mkdir(manifests);
  // JSON is YAML.
  await writeFile(config, JSON.stringify({ ...EGRESS_CONFIG, ...settings }));
  const cniResults = (node: string) => join(folder, `${node}-cni`);
  for (const node of lab.nodes.keys()) {
    await mkdir(cniResults(node));
    const own = {
      ...EGRESS_CONFIG,
      ...settings,
      egress: { ...settings.egress, cniResults: cniResults(node) },
    };
    await writeFile(join(folder, `${node}.yaml`), JSON.stringify(own));
  }
  const agents = new Map<string, RunningAgent>();
  const write = async (name: string, items: readonly object[]): Promise<void> => {
    const fresh = join(folder, `${name}.fresh`);
    await writeFile(fresh, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
    await rename(fresh, join(manifests, name));
  };
  await write('cluster.json', clusterObjects(lab, isAbsent));
  const stateDir = (node: string) => join(folder, node);
  const always = (node: string) => [
    ...['--state-dir', stateDir(node)],
    ...['--config', join(folder, `${node}.yaml`)],
  ];
  const agentOf = (node: string): RunningAgent => {
    const agent = agents.get(node);
    if (agent === undefined) throw new Error(`no agent on ${node}`);
    return agent;
  };
  return {
    manifests,
    config,
    stateDir,
    cniResults,
    write,
    agent: agentOf,
    start(node, ...options) {
      const args = ['agent', '--manifests', manifests, '--node', node, ...always(node), ...options];
      const agent = toRunningAgent(lab.node(node).namespace.spawn([NODEWALL, ...args]));
      agents.set(node, agent);
      return agent;
    },
    async run(node, ...args) {
      return (await lab.node(node).namespace.run([NODEWALL, ...args, ...always(node)])).stdout;
    },
    async untilInForce(node, text, isThere = true) {
      const { namespace } = lab.node(node);
      const detail = () => agents.get(node)?.log().slice(-3000) ?? '';
      await until(
        `${node}: ${isThere ? '' : 'no '}${text} in force`,
        async () => {
          const listed = await namespace.run(['nft', 'list', 'table', 'inet', 'nodewall'], {
            anyStatus: true,
          });
          return text.test(listed.stdout) === isThere;
        },
        { detail },
      );
    },
    async close() {
      await Promise.all([...agents.values()].map((agent) => agent.end('SIGKILL')));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

interface LabObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly spec?: object;
  readonly status?: object;
}

/** Its Nodes, pods, and the namespace of the pods, as manifests. */
export function clusterObjects(
  lab: EgressLab,
  isAbsent: (pod: string) => boolean = () => false,
): LabObject[] {
  const nodes = [...lab.nodes.values()].map(({ name, v4, v6 }, i) => ({
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels: { node: name, gateway: String(name.startsWith('gw-')) } },
    spec: { podCIDRs: [`10.244.${i + 1}.0/24`, `fd00:10:244:${i + 1}::/64`] },
    status: { addresses: [v4, v6].map((address) => ({ type: 'InternalIP', address })) },
  }));
  const there = [...lab.pods.values()].filter(({ name }) => !isAbsent(name));
  const pods = there.map(({ name, node, v4, v6 }) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'default', labels: { pod: name } },
    spec: { nodeName: node },
    status: { phase: 'Running', podIPs: [{ ip: v4 }, { ip: v6 }] },
  }));
  return [{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' } }, ...nodes, ...pods];
}

/** A gateway with the nodes' own addresses. */
export function gateway(name: string, nodes: readonly string[], spec: object = {}): object {
  return {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'EgressGateway',
    metadata: { name },
    spec: {
      nodeSelector: { matchExpressions: [{ key: 'node', operator: 'In', values: nodes }] },
      allowedNamespaces: {},
      ...spec,
    },
  };
}

export function egressPolicy(name: string, pods: readonly string[], spec: object): object {
  return {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'EgressPolicy',
    metadata: { name, namespace: 'default' },
    spec: {
      appliedTo: [{ podSelector: { matchExpressions: [{ key: 'pod', operator: 'In', values: pods }] } }],
      ...spec,
    },
  };
}
