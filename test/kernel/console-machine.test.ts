/**
 * The console of one machine: an agent of manifests in a namespace, and `nodewall console` beside
 * it.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { OVERVIEW_WATCH, type Overview } from '../../apis/console.ts';
import type { Audit, DeniedPeers, Drops, Lint, Preview } from '../../apis/console-documents.ts';
import { CONSOLE_API, type RunningDoor, startDoor } from '../e2e/console-door.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { kernelSuite } from './kernel-suite.ts';
import { policy, tcp } from './manifests.ts';
import { until } from './until.ts';

const CALLER = `
const [host, ...ports] = process.argv.slice(1);
for (const port of ports) {
  const socket = require('node:net').connect({ host, port: Number(port) });
  socket.on('error', () => {});
  setTimeout(() => socket.destroy(), 200);
}`;

kernelSuite('the console of one machine', function () {
  this.timeout(120_000);
  let node: EnforcedNode;
  let agent: RunningAgent;
  let door: RunningDoor;
  let folder = '';

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-machine-'));
    node = await createEnforcedNode();
    await node.write('policies.json', policies());
    agent = node.start();
    await until('its rules are in force', async () => agent.log().includes('"message":"enforced"'), {
      detail: () => agent.log().slice(-2000),
    });
    const args = ['--machine', '--state-dir', node.stateDir, ...(await node.configure({}))];
    door = await startDoor(node.topology.node, folder, args);
  });
  after(async () => {
    await door?.end();
    await node?.close();
    await rm(folder, { recursive: true, force: true });
  });

  function policies(...more: readonly object[]): object[] {
    return [
      policy('closed', { ingress: [{ name: 'web', action: 'Drop', enableLogging: true, ports: [tcp(80)] }] }),
      policy('trial', {
        mode: 'Audit',
        priority: 6,
        ingress: [{ name: 'eight', action: 'Drop', ports: [tcp(81)] }],
      }),
      policy('late', { priority: 7, ingress: [{ name: 'same', action: 'Drop', ports: [tcp(80)] }] }),
      ...more,
    ];
  }

  async function document<T>(path: string): Promise<T> {
    const { status, text } = await door.ask(`${CONSOLE_API}/${path}`);
    assert.equal(status, 200, text);
    return JSON.parse(text);
  }

  /** Connections from a client to ports of the node, which nobody answers. */
  async function calls(...ports: readonly number[]): Promise<void> {
    const { clients, plan } = node.topology;
    const [own] = plan.nodeAddresses;
    const [client] = clients;
    await client?.run([process.execPath, '-e', CALLER, own?.v4 ?? '', ...ports.map(String)]);
  }

  it('shows what is in force', async () => {
    const { scope, nodes, policies: found, isEnabled } = await document<Overview>('overviews/cluster');
    assert.deepEqual([scope, isEnabled, nodes[0]?.phase], ['machine', true, 'Enforced']);
    assert.deepEqual(
      found.map(({ name, mode, phase, nodes: where }) => [name, mode, phase, where]),
      [
        ['closed', 'Enforce', 'Realized', [[0, 0]]],
        ['trial', 'Audit', 'Realized', [[0, 0]]],
        ['late', 'Enforce', 'Realized', [[0, 0]]],
      ],
    );
  });

  it('knows drops, who was denied, and audit verdicts', async () => {
    await calls(80, 81);
    let drops: Drops | null = null;
    await until('the counters grew', async () => {
      await calls(80, 81);
      drops = await document<Drops>('overviews/drops');
      return drops.rules.length > 0;
    });
    assert.equal((drops as unknown as Drops).rules[0]?.policy, 'closed');
    await until('the records are there', async () => {
      const { peers, rules } = await document<Audit>('overviews/audit');
      return (
        rules[0]?.policy === 'trial' && (rules[0]?.packets ?? 0) > 0 && peers.some(({ port }) => port === 81)
      );
    });
    await until(
      'the inventory is saved',
      async () => (await document<DeniedPeers>('overviews/peers')).peers.some(({ port }) => port === 80),
      { limit: 90_000 },
    );
  });

  it('lints, previews and explains', async () => {
    const { findings } = await document<Lint>('overviews/lint');
    assert.deepEqual(
      findings.map(({ policy: name, kind }) => [name, kind]),
      [['late', 'unreachable']],
    );
    const yaml = JSON.stringify(
      policy('closed', { ingress: [{ name: 'web', action: 'Allow', ports: [tcp(80)] }] }),
    );
    const { status, text } = await door.ask(`${CONSOLE_API}/previews`, {
      ...{ method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ yaml }) },
    });
    assert.equal(status, 200, text);
    const { groups, objects }: Preview = JSON.parse(text);
    assert.deepEqual(objects, [{ kind: 'ClusterNetworkPolicy', name: 'closed', change: 'replaced' }]);
    assert.deepEqual(
      groups.flatMap(({ rows }) => rows.map(({ change }) => change)),
      ['allowed'],
    );
    const { nodes } = await document<Overview>('overviews/cluster');
    const flow = encodeURIComponent(
      JSON.stringify({ direction: 'ingress', src: '203.0.113.9', protocol: 'tcp', dstPort: 80 }),
    );
    const explained = await document<object>(`nodeviews/${nodes[0]?.name}/explanation?flow=${flow}`);
    assert.match(JSON.stringify(explained), /"verdict":"Drop"/);
    assert.equal((await door.ask('/apis/nodewall.io/v1alpha1/clusternetworkpolicies')).status, 404);
  });

  it('shows a change as it happens', async () => {
    const watch = await door.watch(`${CONSOLE_API}/${OVERVIEW_WATCH}`);
    assert.equal((await watch.lines.next()).value?.type, 'overview');
    await node.write(
      'policies.json',
      policies(policy('fresh', { priority: 8, ingress: [{ name: 'x', action: 'Drop', ports: [tcp(90)] }] })),
    );
    for (;;) {
      const { value } = await watch.lines.next();
      if (value?.type === 'change' && value.order?.includes('nodewall.io/fresh')) break;
    }
    watch.close();
  });

  it('says that the agent does not run', async () => {
    await agent.end('SIGTERM');
    const { nodes, problems } = await document<Overview>('overviews/cluster');
    assert.equal(nodes[0]?.phase, 'Silent');
    assert.match(problems[0]?.message ?? '', /the agent does not run; the last rules are in force/);
  });
});
