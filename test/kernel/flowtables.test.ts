/**
 * Connections that a flowtable of another table forwards: NodePort policies judge new ones, open
 * ones pass no rule any more, and `established: Recheck` and `nodewall flush` end them all the
 * same.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EITHER_IPTABLES, forEachDataplane } from './dataplane.ts';
import { egressAgents, egressPolicy, gateway } from './egress-agents.ts';
import { createEgressLab, SERVER, SERVER_PORT } from './egress-lab.ts';
import type { RunningAgent } from './enforced-node.ts';
import { layFlowtable, offloaded } from './flowtable.ts';
import { kernelSuite } from './kernel-suite.ts';
import { policy } from './manifests.ts';
import { ANSWER_PATIENCE, type Cluster, callBy, createCluster, PATIENCE } from './passed-by-cluster.ts';
import { kubeProxyNftables } from './passed-by-nftables.ts';
import type { Answer } from './passed-by-peer.ts';
import { talk } from './talk.ts';
import { until } from './until.ts';

type Way = Cluster['ways'][number];

/** Which the node forwards, with and without another source. */
const TARGETS = ['local', 'masqueraded'];

forEachDataplane(
  'connections that a flowtable forwards',
  (dataplane) => {
    let cluster: Cluster;
    let agent: RunningAgent;
    let marker = 21_000;
    beforeEach(async function () {
      cluster = await createCluster({ ...kubeProxyNftables, kinds: ['nodePort'] }, dataplane);
      const { topology } = cluster.node;
      const devices = topology.clients.map((_, i) => topology.nodeInterface(i));
      await layFlowtable(this, topology.node, devices);
      agent = cluster.node.start();
      await enforce();
    });
    afterEach(() => cluster?.close());

    /** Writes policies and waits until they are in force: the marker has a port of its own. */
    async function enforce(...policies: readonly object[]): Promise<void> {
      const ports = [{ protocol: 'TCP', port: ++marker }];
      const mark = policy('marker', { priority: 1, ingress: [{ action: 'Drop', ports }] });
      await cluster.node.write('policies.json', [mark, ...policies]);
      await cluster.node.untilEnforced(String(marker), agent);
    }

    const closing = (name: string, ways: readonly Way[], established: 'Keep' | 'Recheck') =>
      policy(name, {
        traffic: 'NodePort',
        established,
        ingress: [
          {
            action: 'Drop',
            ports: ways.map(({ protocol, port }) => ({ protocol: protocol.toUpperCase(), port })),
          },
        ],
      });

    async function open(ways: readonly Way[]): Promise<readonly Answer[]> {
      const calls = await Promise.all(ways.map((way) => callBy(cluster, way, { leaveOpen: true })));
      assert.deepEqual(outcomes(calls), all(ways, 'answered'));
      // Packets of both directions after the handshake: the first of each goes the long way.
      await again(calls, ANSWER_PATIENCE);
      await again(calls, ANSWER_PATIENCE);
      return calls;
    }

    const again = (calls: readonly Answer[], patience: number) =>
      Promise.all(calls.map((call) => cluster.outside.again(call, patience)));

    async function untilSilent(calls: readonly Answer[]): Promise<void> {
      await until('the connections end', async () =>
        outcomes(await again(calls, PATIENCE)).every((outcome) => outcome === 'silence'),
      );
    }

    /** Packets that came by the hook of forwarded ones. */
    async function forwarded(): Promise<number> {
      const argv = ['nft', 'list', 'chain', 'inet', 'fast-path', 'forward'];
      const { stdout } = await cluster.node.topology.node.run(argv);
      return Number(/packets (\d+)/.exec(stdout)?.[1]);
    }

    it('go past a Drop, and end by Recheck and by flush; new ones are dropped', async () => {
      const ways = cluster.ways.filter(({ target }) => TARGETS.includes(target));
      assert.equal(ways.length, 8);
      const [kept, rechecked] = [
        ways.filter(({ target }) => target === 'local'),
        ways.filter(({ target }) => target !== 'local'),
      ];
      const [keptCalls, recheckedCalls] = [await open(kept), await open(rechecked)];
      assert.equal(await offloaded(cluster.node.topology.node), ways.length, 'all are offloaded');

      await enforce(closing('kept', kept, 'Keep'), closing('rechecked', rechecked, 'Keep'));
      const before = await forwarded();
      const calls = [...keptCalls, ...recheckedCalls];
      assert.deepEqual(outcomes(await again(calls, ANSWER_PATIENCE)), all(ways, 'answered'));
      assert.equal(await forwarded(), before, 'no packet of theirs passed a rule');
      const fresh = await Promise.all(ways.map((way) => callBy(cluster, way, { patience: PATIENCE })));
      assert.deepEqual(outcomes(fresh), all(ways, 'silence'));

      await enforce(closing('kept', kept, 'Keep'), closing('rechecked', rechecked, 'Recheck'));
      await untilSilent(recheckedCalls);
      assert.deepEqual(outcomes(await again(keptCalls, ANSWER_PATIENCE)), all(kept, 'answered'));
      assert.equal(await offloaded(cluster.node.topology.node), kept.length);
      const records = await readFile(join(cluster.node.stateDir, 'records.jsonl'), 'utf8');
      assert.equal(records.match(/"event":"ended".*"reason":"Recheck"/g)?.length, rechecked.length);

      const flushed = JSON.parse((await cluster.node.ask('flush', '-o', 'json')).stdout);
      assert.deepEqual([flushed.ended, flushed.failed, flushed.error], [kept.length, 0, null]);
      await untilSilent(keptCalls);
      assert.equal(await offloaded(cluster.node.topology.node), 0);
      assert.doesNotMatch(agent.log(), /could not be ended/);
    });
  },
  EITHER_IPTABLES,
);

kernelSuite('connections of egress gateways that a flowtable forwards', () => {
  for (const place of ['plain', 'gw-1'])
    it(`leave by no other address (on ${place}), and the agent warns of them`, async function () {
      const lab = await createEgressLab({ nodes: ['plain', 'gw-1'], podsPerNode: 1 });
      const agents = await egressAgents(lab);
      try {
        const node = lab.node(place).namespace;
        await layFlowtable(this, node, ['eth0', 'pod0']);
        await agents.write('gateways.json', [gateway('one', ['gw-1'])]);
        await agents.write('policies.json', [egressPolicy('first', ['plain-0'], { gateway: 'one' })]);
        for (const name of lab.nodes.keys()) agents.start(name);
        await agents.untilInForce('plain', /EgressPolicy default\/first/);
        // No flowtable forwards these.
        const echoes = ([4, 6] as const).map((family) => ({ family, protocol: 'icmp' }) as const);
        await until('the gateway answers', async () =>
          (await lab.ask('plain-0', echoes, 50)).every((answer) => answer === 'reply'),
        );
        await lab.forget();
        const ask = await talk(lab.pod('plain-0').namespace, CALLS);
        for (let i = 0; i < 2; i++) await ask();
        const answering = await ask();
        // Linux 7.2 leaves them alone, because the tunnel's device is not the flowtable's.
        if ((await offloaded(node)) === 0) assert.equal(answering.length, CALLS.length);
        const { v4, v6 } = lab.node('gw-1');
        assert.deepEqual([...(await lab.seen()).keys()].sort(), [v4, v6].sort());
        assert.match(
          agents.agent(place).log(),
          /"flowtables":\["inet fast-path fast"\].*this node has flowtables/,
        );
      } finally {
        await agents.close();
        await lab.close();
      }
    });
});

const CALLS = (['tcp', 'udp'] as const).flatMap((protocol) =>
  [SERVER.v4, SERVER.v6].map((host) => ({ name: `${protocol} ${host}`, host, port: SERVER_PORT, protocol })),
);

const outcomes = (answers: readonly Answer[]): string[] => answers.map(({ outcome }) => outcome);
const all = (ways: readonly Way[], outcome: string): string[] => ways.map(() => outcome);
