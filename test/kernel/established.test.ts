/**
 * What becomes of established connections that a change of rules denies: they go on, but for those
 * that a policy with `established: Recheck` denies, and `nodewall flush` ends them all.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EITHER_IPTABLES, forEachDataplane, itForAny } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { cidr, policy, tcp, udp } from './manifests.ts';
import { listen, talk } from './talk.ts';
import { until } from './until.ts';

const OPEN = 9003;
const KEPT = 9002;
const DENIED = 9001;
const CHATTY = 9005;
const FAILSAFE = 9006;
const METRICS = '127.0.0.1:9464';

interface Ended {
  readonly event?: string;
  readonly [key: string]: unknown;
}

forEachDataplane(
  'established connections',
  (dataplane) => {
    const itOnce = itForAny(dataplane);
    let node: EnforcedNode;
    let agent: RunningAgent;
    let marker = 21_000;

    beforeEach(async () => {
      node = await createEnforcedNode(undefined, dataplane);
      const config = await node.configure({
        failsafe: { ingress: [{ protocol: 'TCP', port: FAILSAFE, peers: ['10.100.0.0/16'] }] },
      });
      agent = node.start(...config, '--metrics-listen', METRICS);
      await enforce();
    });
    afterEach(() => node?.close());

    /** Writes policies and waits until they are in force: the marker has a port of its own. */
    async function enforce(...policies: readonly object[]): Promise<void> {
      const mark = { ingress: [{ name: 'marker', action: 'Drop', ports: [tcp(++marker)] }] } as const;
      await node.write('policies.json', [policy('marker', { priority: 1, ...mark }), ...policies]);
      await node.untilEnforced(String(marker), agent);
    }

    async function records(): Promise<Ended[]> {
      const text = await readFile(join(node.stateDir, 'records.jsonl'), 'utf8').catch(() => '');
      return text.split('\n').flatMap((line) => (line === '' ? [] : JSON.parse(line)));
    }

    const untilEnded = (count: number) =>
      until(`${count} records of ended connections`, async () => (await records()).length >= count, {
        limit: 10_000,
        detail: () => agent.log().slice(-3000),
      });

    it('of the node are ended by Recheck and by flush only; allowed, failsafe and loopback ones go on', async () => {
      const { topology } = node;
      const [client] = topology.clients;
      const [own] = topology.plan.nodeAddresses;
      assert.ok(client !== undefined && own !== undefined);
      await listen(topology.node, [DENIED, KEPT, OPEN, CHATTY, FAILSAFE], [CHATTY]);
      const ask = await talk(client, [
        { name: 'denied', host: own.v4, port: DENIED },
        { name: 'denied6', host: own.v6, port: DENIED },
        { name: 'denied udp', host: own.v4, port: DENIED, protocol: 'udp' },
        { name: 'chatty', host: own.v4, port: CHATTY },
        { name: 'kept', host: own.v4, port: KEPT },
        { name: 'open', host: own.v4, port: OPEN },
        { name: 'failsafe', host: own.v4, port: FAILSAFE },
      ]);
      const askInside = await talk(topology.node, [{ name: 'loopback', host: own.v4, port: DENIED }]);
      assert.equal((await ask()).length, 7);
      await enforce(
        policy('keep', { priority: 2, ingress: [{ name: 'no', action: 'Drop', ports: [tcp(KEPT)] }] }),
        policy('recheck', {
          priority: 3,
          established: 'Recheck',
          ingress: [
            { name: 'yes', action: 'Allow', ports: [tcp(OPEN)] },
            { name: 'rest', action: 'Drop' },
          ],
        }),
      );
      await untilEnded(4);
      assert.deepEqual(await ask(), ['kept', 'open', 'failsafe']);
      assert.deepEqual(await askInside(), ['loopback']);
      const found = await records();
      assert.equal(found.length, 4);
      for (const record of found) {
        const { event, reason, policy: name, rule, verdict, direction, traffic, by } = record;
        assert.deepEqual(
          [event, reason, name, rule, verdict, direction, traffic, by],
          ['ended', 'Recheck', 'recheck', 'rest', 'Drop', 'ingress', 'Host', undefined],
        );
      }
      const ports = found.map(({ protocol, dstPort }) => `${protocol} ${dstPort}`).sort();
      assert.deepEqual(ports, [`tcp ${DENIED}`, `tcp ${DENIED}`, `tcp ${CHATTY}`, `udp ${DENIED}`]);
      assert.match(
        agent.log(),
        /"ended":4,.*"message":"ended the established connections that the rules deny"/,
      );
      const fetched = `fetch('http://${METRICS}/metrics').then((r) => r.text()).then(console.log)`;
      const metrics = await topology.node.run([process.execPath, '-e', fetched]);
      assert.match(
        metrics.stdout,
        /nodewall_agent_ended_connections_total\{api_group="nodewall.io",policy="recheck"\} 4/,
      );
      await flushes(ask);
    });

    async function flushes(ask: () => Promise<string[]>): Promise<void> {
      const dry = JSON.parse((await node.ask('flush', '--dry-run', '-o', 'json')).stdout);
      assert.deepEqual([dry.dryRun, dry.ended, dry.failed, dry.connections.length], [true, 1, 0, 1]);
      assert.equal(dry.connections[0].policy, 'keep');
      assert.deepEqual(await ask(), ['kept', 'open', 'failsafe']);
      assert.equal((await records()).length, 4);
      const of = (...words: readonly string[]) => node.ask('flush', '--node', 'node-0', ...words);
      for (const words of [
        ['--to-port', `${OPEN}`],
        ['--egress'],
        ['--to-port', `udp/${KEPT}`],
        ['--from', '2001:db8::/32'],
      ])
        assert.match((await of(...words)).stdout, /^0 of \d+ connections on node-0 were ended\.$/m);
      assert.deepEqual(await ask(), ['kept', 'open', 'failsafe']);
      const { stdout } = await of('--ingress', '--from', dry.connections[0].src, '--to-port', `${KEPT}`);
      assert.match(
        stdout,
        /Drop .*keep\/no.*\(established, flush by root\)\n1 of \d+ connections on node-0 were ended/,
      );
      assert.deepEqual(await ask(), ['open', 'failsafe']);
      const [last] = (await records()).slice(-1);
      assert.deepEqual(
        [last?.event, last?.reason, last?.by, last?.policy],
        ['ended', 'flush', 'root', 'keep'],
      );
      const again = JSON.parse((await node.ask('flush', '-o', 'json')).stdout);
      assert.deepEqual([again.ended, again.connections], [0, []]);
      await assert.rejects(node.ask('flush', '--node', 'other'), /is that of Node node-0, not of other/);
    }

    itOnce('from the node are ended though the other end goes on sending', async () => {
      const { topology } = node;
      const [client] = topology.clients;
      const [remote] = topology.plan.clientAddresses;
      assert.ok(client !== undefined && remote !== undefined);
      await listen(client, [DENIED, OPEN], [DENIED]);
      const ask = await talk(topology.node, [
        { name: 'denied', host: remote.v4, port: DENIED },
        { name: 'denied udp', host: remote.v4, port: DENIED, protocol: 'udp' },
        { name: 'open', host: remote.v6, port: OPEN },
      ]);
      assert.equal((await ask()).length, 3);
      const egress = [{ name: 'no', action: 'Reject', ports: [tcp(DENIED), udp(DENIED)] }] as const;
      await enforce(policy('recheck', { egress }));
      assert.equal((await ask()).length, 3);
      await enforce(policy('recheck', { established: 'Recheck', egress }));
      await untilEnded(2);
      assert.deepEqual(await ask(), ['open']);
      assert.deepEqual([...new Set((await records()).map(({ direction }) => direction))], ['egress']);
    });

    itOnce('that lose their address in an Allow rule are ended, and others go on', async () => {
      const { topology } = node;
      const [client] = topology.clients;
      const [own] = topology.plan.nodeAddresses;
      assert.ok(client !== undefined && own !== undefined);
      await listen(topology.node, [OPEN]);
      const allow = (...from: readonly string[]) =>
        policy('recheck', {
          established: 'Recheck',
          ingress: [
            { name: 'yes', action: 'Allow', from: from.map(cidr), ports: [tcp(OPEN)] },
            { name: 'rest', action: 'Drop', ports: [tcp(OPEN)] },
          ],
        });
      await enforce(allow('10.100.0.0/16', 'fd90:100::/32'));
      const ask = await talk(client, [
        { name: 'v4', host: own.v4, port: OPEN },
        { name: 'v6', host: own.v6, port: OPEN },
      ]);
      assert.deepEqual(await ask(), ['v4', 'v6']);
      await enforce(allow('fd90:100::/32'));
      await untilEnded(1);
      assert.deepEqual(await ask(), ['v6']);
    });

    itOnce('are ended by agent --once too, and there is nothing to flush while nodewall is off', async () => {
      const { topology } = node;
      const [client] = topology.clients;
      const [own] = topology.plan.nodeAddresses;
      assert.ok(client !== undefined && own !== undefined);
      await node.ask('off');
      await assert.rejects(node.ask('flush'), /enforces no rules on this node: nodewall is off/);
      await node.ask('on');
      await agent.end('SIGTERM');
      await assert.rejects(node.ask('flush'), /no agent runs here/);
      await listen(topology.node, [DENIED]);
      const ask = await talk(client, [{ name: 'denied', host: own.v4, port: DENIED }]);
      const ingress = [{ name: 'no', action: 'Drop', ports: [tcp(DENIED)] }] as const;
      await node.write('policies.json', [policy('recheck', { established: 'Recheck', ingress })]);
      await node.again();
      assert.deepEqual(await ask(), []);
    });

    itOnce('to NodePorts are judged as before the NAT', async () => {
      const { topology } = node;
      const [client, pod] = topology.clients;
      const [own] = topology.plan.nodeAddresses;
      const remote = topology.plan.clientAddresses.find((one) => one.client === 1);
      assert.ok(client !== undefined && pod !== undefined && own !== undefined && remote !== undefined);
      await listen(pod, [OPEN, CHATTY], [CHATTY]);
      const dnat = (port: number, to: number): string =>
        `ip daddr ${own.v4} tcp dport ${port} dnat to ${remote.v4}:${to}\n`;
      const rules = [dnat(30_080, OPEN), dnat(30_082, CHATTY), dnat(30_081, OPEN)].join('');
      await node.nft(`table ip nat {\nchain pre {\ntype nat hook prerouting priority -100\n${rules}}\n}\n`);
      const ask = await talk(client, [
        { name: 'denied', host: own.v4, port: 30_080 },
        { name: 'chatty', host: own.v4, port: 30_082 },
        { name: 'open', host: own.v4, port: 30_081 },
      ]);
      assert.deepEqual(await ask(), ['denied', 'chatty', 'open']);
      const ingress = [{ name: 'no', action: 'Drop', ports: [tcp(30_080), tcp(30_082)] }] as const;
      await enforce(policy('recheck', { traffic: 'NodePort', established: 'Recheck', ingress }));
      await untilEnded(2);
      assert.deepEqual(await ask(), ['open']);
      const [record] = await records();
      assert.deepEqual([record?.traffic, record?.dst, record?.originalDst], ['NodePort', remote.v4, own.v4]);
    });
  },
  EITHER_IPTABLES,
);
