/**
 * How long the first line of `log --all-nodes`, `explain` and `status` take, as whole processes
 * that ask a real API server: 20 workers with agents, then 5,000 nodes whose agents are simulated.
 */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { median } from '../../perf/measure/statistics.ts';
import { usersYaml } from '../cluster/admin-api.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { tcp } from '../kernel/manifests.ts';
import { until } from '../kernel/until.ts';
import { relay } from '../netns/namespace.ts';
import { NODEWALL } from '../program.ts';
import { controllerService, untilAggregated } from './controller-service.ts';
import { type SimulatedAgent, simulatedAgents } from './simulated-agent.ts';
import { closed, realized, type Story, startStory } from './story-bed.ts';
import { replicaPort } from './story-controllers.ts';

const WORKERS = 20;
const ALL_NODES = 5_000;
const TRIALS = 10;
const PORT = replicaPort(0);
/** Tokens and agents that are made at a time. */
const AT_ONCE = 16;

const USER = usersYaml({ jane: ['nodewall-view'] });

kernelSuite('what a cluster with many nodes answers', function () {
  this.timeout(1_800_000);
  let story: Story;
  let kubeconfig = '';
  const simulated: SimulatedAgent[] = [];

  before(async () => {
    story = await startStory({ workers: WORKERS, apiServerFlags: ['--enable-aggregator-routing=true'] });
    const { cluster, address } = story;
    await cluster.apply(`${controllerService(address, [PORT])}---${USER}`);
    kubeconfig = await cluster.kubeconfigFor('jane', { token: await cluster.token('default/jane') });
    await untilAggregated(cluster);
    const rule = { name: 'close', action: 'Drop', ports: [tcp(80)], enableLogging: true, logLabel: 'web' };
    await story.applied(closed('web', 80, { ingress: [rule] }));
    await story.statusIs('web', realized(WORKERS));
    for (let i = 1; i <= WORKERS; i++) await story.sees('other0', `worker-${i}`, 80, 'closed');
  });
  after(async () => {
    for (const one of simulated) one.stop();
    await story?.close();
  });

  /** Milliseconds until the command's first output, and what it printed. */
  async function timed(...args: readonly string[]): Promise<{ milliseconds: number; stdout: string }> {
    const started = performance.now();
    const child = story.controlPlane.spawn([NODEWALL, ...args, '--kubeconfig', kubeconfig]);
    let stdout = '';
    let milliseconds = Number.POSITIVE_INFINITY;
    child.stdout.setEncoding('utf8').on('data', (piece: string) => {
      if (stdout === '') milliseconds = performance.now() - started;
      stdout += piece;
    });
    await once(child, 'close');
    return { milliseconds, stdout };
  }

  async function takes(what: string, limit: number, args: readonly string[], wanted: RegExp): Promise<void> {
    const times: number[] = [];
    for (let i = 0; i < TRIALS; i++) {
      const { milliseconds, stdout } = await timed(...args);
      assert.match(stdout, wanted);
      times.push(milliseconds);
    }
    const middle = median(times);
    process.stdout.write(
      `      ${what}: median ${middle.toFixed(0)} ms, worst ${Math.max(...times).toFixed(0)} ms\n`,
    );
    assert.ok(middle <= limit, `${what}: ${middle} ms`);
  }

  it('shows the first record of 20 nodes', async () => {
    const each = new RegExp(`^worker-${WORKERS} .*web/close`, 'm');
    await takes('log --all-nodes, first line', 2_000, ['log', '--all-nodes', '--verdict', 'Drop'], each);
  });

  it('explains a flow on one of them', async () => {
    const flow = { direction: 'ingress', src: '203.0.113.9', protocol: 'tcp', dstPort: 80 };
    const args = ['explain', '--node', 'worker-7', '--flow', JSON.stringify(flow)];
    await takes('explain --node', 1_000, args, /^Drop: rule web\/close/m);
  });

  it('shows the status of 5,000', async () => {
    const { cluster, controlPlane, address } = story;
    const names = Array.from({ length: ALL_NODES - WORKERS - 1 }, (_, i) => `node-${i}`);
    const objects = names.map((name) =>
      JSON.stringify({ apiVersion: 'v1', kind: 'Node', metadata: { name, labels: { role: 'worker' } } }),
    );
    for (let i = 0; i < objects.length; i += 500)
      await cluster.apply(objects.slice(i, i + 500).join('\n---\n'));
    const path = join(cluster.folder, 'agents.socket');
    await relay(controlPlane, { path }, { host: address, port: PORT });
    const parts = Array.from({ length: AT_ONCE }, (_, i) => names.filter((_name, at) => at % AT_ONCE === i));
    await Promise.all(
      parts.map(async (part) => {
        for (const agent of await simulatedAgents(cluster, part, () => [{ socketPath: path }])) {
          simulated.push(agent);
          await new Promise<void>((resolve) => {
            agent.enforced = () => resolve();
            agent.start();
          });
          if (simulated.length % 500 === 0) process.stdout.write(`      ${simulated.length} agents\n`);
        }
      }),
    );
    await story.statusIs('web', realized(ALL_NODES - 1), 600_000);
    await rm(path);
    const well = new RegExp(`^nodes +${ALL_NODES} Enforced$`, 'm');
    await until('all have reported', async () => well.test((await timed('status')).stdout), {
      limit: 120_000,
    });
    await takes('status of 5,000 nodes', 1_500, ['status'], well);
  });
});
