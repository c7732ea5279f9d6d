import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type ClusterOfNodes,
  type Machine,
  startClusterOfNodes,
} from '../../test/cluster/cluster-of-nodes.ts';
import { until } from '../../test/kernel/until.ts';
import { type Namespace, stop } from '../../test/netns/namespace.ts';
import { probeProgram } from '../../test/probe/probe.ts';
import { logLines } from '../measure/agent.ts';
import { amount, atMost, type Benchmark, type Figure, figure } from '../measure/figure.ts';
import { load } from '../measure/machine.ts';
import { measuredRun, NODEWALL, trialCommand } from '../measure/process.ts';
import type { ClusterTrial, ClusterTrialResult, Verdict } from '../trials/cluster.ts';

const ROOT = join(import.meta.dirname, '../..');
const FILES = ['crds/tier', 'crds/clustergroup', 'crds/clusternetworkpolicy', 'rbac'];
const NODES = ['cp-1', 'cp-2', 'cp-3'] as const;
const PORTS = { policy: 10_000, pod: 10_001, controller: 8443, metrics: 8081 } as const;
/** Policies besides, of ten rules each. */
const OTHERS = 10;

export const cluster: Benchmark = {
  name: 'cluster',
  title: 'a change of an object to enforced on every node',
  how: 'etcd, kube-apiserver, `bin/nodewall controller` and three `bin/nodewall agent`s with 100 rules each, in network namespaces of this one machine. An object is changed by kubectl or by a request, and a machine that is no node opens new connections to all three nodes, one a millisecond: the time to the end of the first with the new verdict on the last of them. What that machine, the API server and five Node.js processes take of the processors is in it.',
  async run(settings) {
    const changes = amount(settings, [10, 40, 100]);
    const before = load();
    const { result, agents } = await measure(settings.folder, changes);
    const worst = (values: readonly number[]) =>
      `worst of ${values.length}: ${Math.max(...values).toFixed(0)} ms; load ${before} before, ${load()} after`;
    const figures: Figure[] = [
      figure('kubectl apply returns to enforced on 3 nodes', 'ms', result.applied, {
        target: atMost(150),
        note: worst(result.applied),
      }),
      figure('… kubectl apply itself', 'ms', result.kubectl),
      figure('a policy changed by a request, from the answer: one node is told', 'ms', result.told),
      figure('… enforced on 3 nodes', 'ms', result.enforced, { note: worst(result.enforced) }),
      figure('… of it render and apply on one node, as the agents log it', 'ms', agents),
      figure('a pod gets its address, from the answer: one node is told', 'ms', result.podTold),
      figure('… enforced in a rule that was there, on 3 nodes', 'ms', result.podEnforced, {
        target: atMost(100),
        note: worst(result.podEnforced),
      }),
      figure('… bytes to one node for it', 'B', result.bytes, {
        target: atMost(400),
        note: 'lines of the stream',
      }),
      figure('… bytes that TCP carried', 'B', result.tcpBytes, { note: 'TLS records and chunks included' }),
    ];
    return figures;
  },
};

async function measure(
  folder: string,
  changes: number,
): Promise<{ readonly result: ClusterTrialResult; readonly agents: readonly number[] }> {
  const labels = Object.fromEntries(NODES.map((name) => [name, { role: 'control-plane' }]));
  const all = await startClusterOfNodes({ nodes: labels, others: 1 });
  const [client] = all.others;
  if (client === undefined) throw new Error('no machine besides the nodes');
  const running: Running[] = [];
  try {
    await prepareObjects(all, client);
    const controller = await startController(all);
    running.push(controller);
    await until('the controller serves', async () => (await readiness(all)) === '200', {
      detail: () => controller.log(),
      limit: 30_000,
    });
    const map = await all.cluster.get<{ data: Record<string, string> }>(
      'configmap',
      'nodewall-ca',
      '--namespace=nodewall-system',
    );
    const caFile = join(folder, 'ca.crt');
    await writeFile(caFile, map.data['ca.crt'] ?? '');
    const url = `https://${all.address}:${PORTS.controller}`;
    const tokens = new Map<string, string>();
    for (const machine of all.nodes) {
      const token = await all.cluster.token('nodewall-system/nodewall-agent', {
        boundNode: machine.name,
        audiences: ['nodewall-controller'],
      });
      tokens.set(machine.name, token);
      running.push(await startAgentOf(machine, { folder, url, caFile, token }));
      const ports = [PORTS.policy, PORTS.pod].map((port) => `tcp:${port}`);
      await once(machine.namespace.spawn([await probeProgram(), 'listen', ...ports]).stdout, 'data');
    }
    const agents = running.slice(1);
    for (const agent of agents)
      await until('an agent enforces', async () => enforced(agent).length > 0, { detail: () => agent.log() });
    const count = agents.map((agent) => enforced(agent).length);
    const input: ClusterTrial = {
      apiServer: { url: all.cluster.server, caFile: all.cluster.caFile, token: all.cluster.adminToken },
      controller: { url, caFile, node: NODES[0], token: tokens.get(NODES[0]) ?? '' },
      kubectl: [
        ...['env', `HOME=${all.cluster.folder}`, `KUBECONFIG=${all.cluster.kubeconfig}`],
        ...[all.cluster.program, 'kubectl', 'apply', '--server-side', '-f'],
      ],
      nodes: all.nodes.map(({ v4 }) => v4),
      policy: {
        path: '/apis/nodewall.io/v1alpha1/clusternetworkpolicies/changed',
        port: PORTS.policy,
        files: await writeVersions(folder, client),
      },
      pod: {
        path: '/api/v1/namespaces/default/pods/client',
        port: PORTS.pod,
        here: client.v4,
        there: '10.250.0.1',
      },
      changes,
    };
    const { stdout } = await measuredRun(client.namespace.command(trialCommand('cluster', input)));
    const logged = agents.flatMap((agent, i) => enforced(agent).slice(count[i]));
    return {
      result: JSON.parse(stdout) as ClusterTrialResult,
      agents: logged.map(({ milliseconds = Number.NaN }) => milliseconds),
    };
  } finally {
    for (const one of running.toReversed()) await one.stop();
    await all.close();
  }
}

function enforced(agent: Running) {
  return logLines(agent.log()).filter(({ message }) => message === 'enforced');
}

interface Running {
  log(): string;
  stop(): Promise<void>;
}

function start(namespace: Namespace, argv: readonly string[]): Running {
  const child: ChildProcessWithoutNullStreams = namespace.spawn([NODEWALL, ...argv, '--log-format', 'json']);
  let said = '';
  child.stderr.on('data', (part) => {
    said += String(part);
  });
  child.stdout.resume();
  return { log: () => said, stop: () => stop(child, 'SIGTERM') };
}

async function startController({ cluster, controlPlane, address }: ClusterOfNodes): Promise<Running> {
  const kubeconfig = await cluster.kubeconfigFor('controller', {
    token: await cluster.token('nodewall-system/nodewall-controller'),
  });
  const listen = ['--listen', `${address}:${PORTS.controller}`];
  const metrics = ['--metrics-listen', `127.0.0.1:${PORTS.metrics}`];
  return start(controlPlane, ['controller', '--kubeconfig', kubeconfig, ...listen, ...metrics]);
}

/** The status that /readyz answers with; '' before somebody listens. */
async function readiness({ controlPlane }: ClusterOfNodes): Promise<string> {
  const ask = `fetch('http://127.0.0.1:${PORTS.metrics}/readyz').then((r) => console.log(r.status), () => {})`;
  const { stdout } = await controlPlane.run([process.execPath, '-e', ask], { anyStatus: true });
  return stdout.trim();
}

interface AgentParts {
  readonly folder: string;
  readonly url: string;
  readonly caFile: string;
  readonly token: string;
}

async function startAgentOf(
  { name, namespace }: Machine,
  { folder, url, caFile, token }: AgentParts,
): Promise<Running> {
  const own = join(folder, name);
  await mkdir(own);
  await writeFile(join(own, 'token'), token);
  const files = ['--token-file', join(own, 'token'), '--ca-file', caFile, '--state-dir', join(own, 'state')];
  const config = ['--config', join(ROOT, 'test/netns/agent.yaml')];
  return start(namespace, ['agent', '--node', name, '--controller', url, ...files, ...config]);
}

async function prepareObjects({ cluster }: ClusterOfNodes, client: Machine): Promise<void> {
  for (const name of FILES) await cluster.apply(await readFile(join(ROOT, `deploy/${name}.yaml`), 'utf8'));
  await cluster.kubectl(['wait', '--for=condition=Established', 'crd', '--all']);
  const gate = { name: 'nodewall-config', namespace: 'nodewall-system' };
  const pod = { containers: [{ name: 'client', image: 'none' }], nodeName: NODES[0] };
  const objects = [
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: gate,
      data: { 'config.yaml': 'featureGates: {NodeNetworkPolicy: true}' },
    },
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'client', namespace: 'default', labels: { app: 'client' } },
      spec: pod,
    },
    policy('pods', 2, [
      {
        name: 'client',
        action: 'Allow',
        from: [{ podSelector: { matchLabels: { app: 'client' } } }],
        ...on(PORTS.pod),
      },
      { name: 'others', action: 'Reject', ...on(PORTS.pod) },
    ]),
    changed('open', client),
    ...Array.from({ length: OTHERS }, (_, i) => policy(`other-${i}`, 10 + i, otherRules(i))),
  ];
  await cluster.apply(objects.map((object) => JSON.stringify(object)).join('\n---\n'));
}

function policy(name: string, priority: number, ingress: readonly object[]): object {
  return {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name },
    spec: { priority, appliedTo: [{ nodeSelector: { matchLabels: { role: 'control-plane' } } }], ingress },
  };
}

function on(port: number) {
  return { ports: [{ protocol: 'TCP', port }] };
}

function otherRules(nth: number): object[] {
  return Array.from({ length: 10 }, (_, i) => ({
    name: `rule-${i}`,
    action: 'Allow',
    from: [{ ipBlock: { cidr: `172.16.${10 * nth + i}.0/24` } }],
    ...on(20_000 + 10 * nth + i),
  }));
}

function changed(verdict: Verdict, { v4 }: Machine): object {
  const action = verdict === 'open' ? 'Allow' : 'Reject';
  const from = [{ ipBlock: { cidr: `${v4}/32` } }];
  return policy('changed', 1, [{ name: 'client', action, from, ...on(PORTS.policy) }]);
}

async function writeVersions(folder: string, client: Machine): Promise<Record<Verdict, string>> {
  const write = async (verdict: Verdict): Promise<string> => {
    const file = join(folder, `${verdict}.json`);
    await writeFile(file, JSON.stringify(changed(verdict, client)));
    return file;
  };
  return { open: await write('open'), refused: await write('refused') };
}
