/**
 * A cluster with egress gateways: the nodes, pods and server of the lab, a real API server and a
 * controller beside the server, an agent on each node.
 */

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Condition } from '../../apis/policy-status.ts';
import type {
  WrittenGatewayStatus,
  WrittenPolicyStatus,
} from '../../controller/egress/status/egress-status.ts';
import { startCluster, type TestCluster } from '../cluster/cluster.ts';
import { clusterObjects, gateway } from '../kernel/egress-agents.ts';
import { createEgressLab, type EgressLab, type LabFlow } from '../kernel/egress-lab.ts';
import { type RunningAgent, toRunningAgent } from '../kernel/enforced-node.ts';
import { until } from '../kernel/until.ts';
import { relay } from '../netns/namespace.ts';
import { NODEWALL } from '../program.ts';
import { answerOf } from './controller-process.ts';
import { agentToken, controllerCa, controllerKubeconfig, install } from './installed.ts';

/** Of the namespace of the server, beside which the control plane runs. */
const ADDRESS = '192.0.2.100';
const PORT = 8443;
const METRICS_PORT = 8080;
const LIMIT = 30_000;

export interface EgressBed {
  readonly lab: EgressLab;
  stateDir(node: string): string;
  readonly cluster: TestCluster;
  /** Sets the feature gates of the cluster. */
  setGates(gates: string): Promise<void>;
  apply(...objects: readonly object[]): Promise<void>;
  startController(start?: AgentStart): Promise<RunningAgent>;
  startAgent(node: string, options?: AgentStart): void;
  agent(node: string): RunningAgent;
  /** Ends its agent, and starts it again. */
  restartAgent(
    node: string,
    options?: AgentStart & { readonly signal?: 'SIGTERM' | 'SIGKILL' },
  ): Promise<void>;
  /** The conditions of an object, as `TYPE=STATUS/REASON`, and all of its status. */
  gatewayStatus(name: string): Promise<WrittenGatewayStatus | undefined>;
  policyStatus(name: string): Promise<WrittenPolicyStatus | undefined>;
  untilRealized(policy: string): Promise<void>;
  /** The sources that the server sees of one packet of each flow; all must be answered. */
  sourcesOf(pod: string, flows: readonly LabFlow[]): Promise<readonly string[]>;
  /** Waits until new connections of the pod are answered, and leave by this node. */
  untilLeavesBy(pod: string, node: string, flows: readonly LabFlow[]): Promise<void>;
  logs(): string;
  close(): Promise<void>;
}

export interface AgentStart {
  readonly program?: string;
  readonly options?: readonly string[];
}

export { gateway };

/** @param settings of controller and agents, beside those that all beds have */
export async function startEgressBed(nodes: readonly string[], settings: object = {}): Promise<EgressBed> {
  const lab = await createEgressLab({ nodes, podsPerNode: 2 });
  const cluster = await startCluster({ namespace: lab.server, address: ADDRESS }).catch(async (error) => {
    await lab.close();
    throw error;
  });
  const running = new Map<string, RunningAgent>();
  const logs = (): string =>
    [...running].map(([name, one]) => `--- ${name}\n${one.log().slice(-3000)}`).join('\n');
  const file = (name: string): string => join(cluster.folder, name);
  const health = { socketPath: file('health.socket') };
  const apply = (...objects: readonly object[]): Promise<void> =>
    cluster.apply(objects.map((one) => JSON.stringify(one)).join('\n---\n'));

  async function setUp(): Promise<void> {
    await install(cluster);
    await controllerKubeconfig(cluster);
    await writeFile(file('controller.config'), JSON.stringify(settings));
    await relay(lab.server, { path: health.socketPath }, { host: '127.0.0.1', port: METRICS_PORT });
    await Promise.all(clusterObjects(lab).map(add));
  }

  async function add(object: ReturnType<typeof clusterObjects>[number]): Promise<void> {
    const { status = {}, ...written } = object;
    const { kind, metadata } = object;
    if (kind === 'Namespace') return;
    const within = metadata.namespace === undefined ? [] : [`--namespace=${metadata.namespace}`];
    await apply(kind === 'Pod' ? withContainer(written) : written);
    const ready = kind === 'Node' ? { conditions: [{ type: 'Ready', status: 'True' }] } : {};
    await cluster.patchStatus([`${kind.toLowerCase()}/${metadata.name}`, ...within], { ...status, ...ready });
  }

  const isReady = async (): Promise<boolean> => (await answerOf(health, '/readyz')).startsWith('200');

  async function startController({
    program = NODEWALL,
    options = [],
  }: AgentStart = {}): Promise<RunningAgent> {
    await running.get('controller')?.end('SIGTERM');
    const args = [
      ...['controller', '--kubeconfig', file('controller.kubeconfig'), '--listen', `${ADDRESS}:${PORT}`],
      ...['--metrics-listen', `127.0.0.1:${METRICS_PORT}`, '--log-format', 'json'],
      ...['--config', file('controller.config'), ...options],
    ];
    const one = toRunningAgent(lab.server.spawn([program, ...args]));
    running.set('controller', one);
    await until('the controller is ready', isReady, { limit: LIMIT, detail: logs });
    await writeFile(file('ca'), await controllerCa(cluster));
    return one;
  }

  async function writeTokens(): Promise<void> {
    const one = async (node: string): Promise<void> => {
      const token = await agentToken(cluster, node);
      await writeFile(file(`${node}.token`), token, { mode: 0o600 });
      await writeFile(file(`${node}.config`), JSON.stringify({ ...CONFIG, ...settings }));
    };
    await Promise.all(nodes.map(one));
  }

  function startAgent(node: string, { program = NODEWALL, options = [] }: AgentStart = {}): void {
    const args = [
      ...['agent', '--controller', `https://${ADDRESS}:${PORT}`, '--node', node],
      ...['--state-dir', file(`${node}.state`), '--token-file', file(`${node}.token`)],
      ...['--ca-file', file('ca'), '--config', file(`${node}.config`), '--log-format', 'json', ...options],
    ];
    running.set(node, toRunningAgent(lab.node(node).namespace.spawn([...CAPABILITIES, program, ...args])));
  }

  const agent = (node: string): RunningAgent => running.get(node) ?? assert.fail(node);
  const status = async <S>(kind: string, ...more: readonly string[]): Promise<S | undefined> =>
    (await cluster.get<{ status?: S }>(`${kind}.nodewall.io`, ...more)).status;
  const policyStatus = (name: string) =>
    status<WrittenPolicyStatus>('egresspolicies', name, '--namespace=default');

  async function sourcesOf(pod: string, flows: readonly LabFlow[]): Promise<readonly string[]> {
    await lab.forget();
    const answers = await lab.ask(pod, flows, 100);
    return answers.every((one) => one === 'reply') ? [...(await lab.seen()).keys()].sort() : answers;
  }

  try {
    await setUp();
    await writeTokens();
  } catch (error) {
    await cluster.close();
    await lab.close();
    throw error;
  }
  return {
    lab,
    cluster,
    apply,
    startController,
    startAgent,
    agent,
    logs,
    policyStatus,
    sourcesOf,
    stateDir: (node) => file(`${node}.state`),
    gatewayStatus: (name) => status<WrittenGatewayStatus>('egressgateways', name),
    setGates: (gates) =>
      apply({
        apiVersion: 'v1',
        kind: 'ConfigMap',
        data: { 'config.yaml': `featureGates: {${gates}}` },
        metadata: { name: 'nodewall-config', namespace: 'nodewall-system' },
      }),
    async restartAgent(node, { signal = 'SIGTERM', ...start } = {}) {
      await agent(node).end(signal);
      startAgent(node, start);
    },
    async untilRealized(policy) {
      let last = '';
      await until(
        `${policy} is realized`,
        async () => {
          last = conditions((await policyStatus(policy))?.conditions);
          return last.includes('Realized=True/Realized');
        },
        { limit: LIMIT, detail: () => `${last}\n${logs()}` },
      );
    },
    async untilLeavesBy(pod, node, flows) {
      const { v4, v6 } = lab.node(node);
      let last: readonly string[] = [];
      await until(
        `${pod} leaves by ${node}`,
        async () => {
          last = await sourcesOf(pod, flows);
          return last.every((one) => one === v4 || one === v6);
        },
        { limit: LIMIT, detail: () => `last: ${last}\n${logs()}` },
      );
    },
    async close() {
      await Promise.all([...running.values()].map((one) => one.end('SIGKILL')));
      await cluster.close();
      await lab.close();
    },
  };
}

/** As component `egress` of deploy/kustomize gives them. */
const CAPABILITIES = ['setpriv', '--bounding-set=-all,+net_admin,+net_raw', '--inh-caps=-all', '--'];

const CONFIG = { interfaceGroupFile: '', interfaceGroups: { pods: { group: 8, match: [] } } };

/** `TYPE=STATUS/REASON MESSAGE` of each. */
export function conditions(all: readonly Condition[] = []): string {
  return all.map(({ type, status, reason, message }) => `${type}=${status}/${reason} ${message}`).join(' ');
}

function withContainer(object: object): object {
  const { spec } = object as { spec: object };
  return { ...object, spec: { ...spec, containers: [{ name: 'c', image: 'none' }] } };
}
