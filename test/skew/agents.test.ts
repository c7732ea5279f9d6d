/**
 * An agent is replaced by the one of the version before, and back: under a flood, and with the
 * state files that the other one left. The controller sends what this version sends.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { AddressSet, CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { FakeControlPlane } from '../fake/control-plane.ts';
import { clientControlPlane } from '../kernel/client-control-plane.ts';
import { EITHER_IPTABLES, forEachDataplane, itForAny, NFTABLES } from '../kernel/dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from '../kernel/enforced-node.ts';
import { NODE_NAME, node as nodeManifest, policy, tcp, udp } from '../kernel/manifests.ts';
import { until } from '../kernel/until.ts';
import { areVariationsWanted } from '../kernel/variations.ts';
import { NODEWALL } from '../program.ts';
import { toState } from '../properties/pipeline.ts';
import { floodedDuring } from './flooded.ts';
import { missingPreviousRelease, previousRelease } from './previous-release.ts';

const PORT = 8443;
const DNS_PORT = 5353;
const FIRST_MARKER = 20_000;
const CLOSED = 4001;
const OPEN = 4002;
/**
 * An agent takes seconds to start, in which the flood goes on; agents.long.ts has the usual rate.
 */
const RATE = areVariationsWanted() ? {} : { rate: 2_000 };
const TARGETS = [
  { protocol: 'udp', port: CLOSED, family: 4, client: 1, ...RATE },
  { protocol: 'udp', port: OPEN, family: 6, client: 1, ...RATE },
] as const;

forEachDataplane(
  'an agent one version away',
  (dataplane) => {
    let node: EnforcedNode;
    let plane: FakeControlPlane;
    let agent: RunningAgent;
    let program: string;
    let marker = FIRST_MARKER;
    const programs = { previous: '', this: NODEWALL };
    type Version = keyof typeof programs;

    before(async function () {
      this.timeout(600_000);
      const missing = await missingPreviousRelease();
      if (missing !== null) {
        process.stderr.write(`skipped: an agent one version away: ${missing}\n`);
        return this.skip();
      }
      programs.previous = join(await previousRelease(), 'bin/nodewall');
      node = await createEnforcedNode(undefined, dataplane, () => program);
      plane = await clientControlPlane(node, PORT);
    });
    after(async () => {
      await node?.close();
      await plane?.close();
    });
    afterEach(async () => {
      await agent?.end('SIGKILL');
      await plane?.start();
    });

    /** The rules have a field that the previous version does not know. */
    function marked(port: number, ...more: readonly object[]): NodeState {
      marker = port;
      const ingress = [
        { name: 'open', action: 'Allow', ports: [udp(OPEN)] },
        { name: 'close', action: 'Drop', ports: [udp(CLOSED), udp(OPEN)] },
        { name: 'marker', action: 'Drop', ports: [tcp(marker)] },
      ] as const;
      const manifest = policy('closed', { ingress, established: 'Recheck' });
      return toState([nodeManifest(node.topology.plan), manifest, ...more], NODE_NAME);
    }
    const next = (...more: readonly object[]): NodeState => marked(marker + 1, ...more);
    function start(version: Version, ...options: readonly string[]): void {
      program = programs[version];
      const plain = ['--token-file', plane.tokenFile, '--ca-file', plane.caFile];
      agent = node.follow(plane.url, ...plain, ...options);
    }
    const untilMarked = () => node.untilEnforced(String(marker), agent);
    const reports = (from: number) => plane.reports.slice(from);

    it('takes over the rules in force, whichever was there before, and leaves none of them', async () => {
      const ofVersion = new Map<Version, string>();
      // A change is several transactions: until the last, the rules before are there too.
      const untilGone = (port: number) =>
        until(`${port} is gone`, async () => !(await node.rules()).includes(String(port)), {
          detail: agent.log,
        });
      async function changed(version: Version): Promise<void> {
        plane.publish(marked(FIRST_MARKER + 1));
        start(version);
        await untilMarked();
        await untilGone(FIRST_MARKER);
        plane.publish(marked(FIRST_MARKER));
        await untilMarked();
        await untilGone(FIRST_MARKER + 1);
        const now = await node.rules();
        assert.equal(now, ofVersion.get(version) ?? now, `${version}, after the other one`);
        ofVersion.set(version, now);
      }
      await changed('previous');
      await floodedDuring(node.topology, TARGETS, async () => {
        for (const version of ['this', 'previous', 'this'] as const) {
          await agent.end(ofVersion.size === 1 ? 'SIGKILL' : 'SIGTERM');
          await changed(version);
        }
      });
      assert.deepEqual(
        reports(0)
          .flatMap(({ failing, viewError }) => [...failing, viewError ?? []])
          .flat(),
        [],
      );
    });

    for (const [writer, reader] of [
      ['previous', 'this'],
      ['this', 'previous'],
    ] as const) {
      itForAny(dataplane)(`reads the state files of the other version: ${writer} to ${reader}`, async () => {
        // The failsafe list shows where something is denied.
        const deny = policy('deny', { egress: [{ name: 'all', action: 'Drop' }] });
        plane.publish(next(deny));
        start(writer);
        await untilMarked();
        const [{ v4 } = assert.fail()] = node.topology.plan.clientAddresses;
        plane.endpoints([
          { port: 24_443, addresses: [v4] },
          { protocol: 'udp', port: DNS_PORT, addresses: [v4] },
        ]);
        const has = async (port: number) => (await node.rules()).includes(String(port));
        await until('the endpoints are on the list', () => has(24_443), { detail: agent.log });
        assert.equal(await has(DNS_PORT), writer === 'this');
        await agent.end('SIGTERM');
        await plane.stop();
        await node.lose();
        start(reader);
        await until('they are there again', () => has(24_443), { detail: agent.log });
        assert.ok((await node.rules()).includes(String(marker)));
        assert.equal(await has(DNS_PORT), false, 'a port of UDP is none of TCP');
        await floodedDuring(node.topology, TARGETS, async () => {
          await plane.start();
          plane.publish(next(deny));
          await untilMarked();
        });
      });
    }

    // Whatever the dataplane.
    if (dataplane !== NFTABLES) return;
    it('does not start with keys of a later configuration, and the rules stay', async () => {
      plane.publish(next());
      start('this');
      await untilMarked();
      await agent.end('SIGTERM');
      const rules = await node.rules();
      start('previous', ...(await node.configure({ antiSpoofing: true })));
      await until('it ends', async () => !agent.isRunning(), { detail: agent.log });
      assert.match(agent.log(), /antiSpoofing: unknown field/);
      assert.equal(await node.rules(), rules);
    });

    it('refuses rules with sets that a later version wrote, also after a restart', async () => {
      const from = [{ ipBlock: { cidr: '192.0.2.0/24' } }];
      const later = policy('later', {
        ingress: [{ name: 'l', action: 'Allow', from, ports: [udp(CLOSED)] }],
      });
      const state = next(later);
      const rule = state.rules.find(({ source }) => source.policy === 'later') as CompiledRule;
      const named = rule.peers.flatMap((peer) => (peer.kind === 'addresses' ? [peer.set] : []));
      const addressSets = new Map(
        [...state.addressSets].map(([id, set]): [string, AddressSet] => [
          id,
          named.includes(id) ? { ...set, unknown: { except: ['192.0.2.7'] } } : set,
        ]),
      );
      plane.publish({ ...state, addressSets });
      for (const isOver of [false, true]) {
        const before = plane.reports.length;
        start('this');
        await untilMarked();
        const isFailing = () => reports(before).some(({ failing }) => failing.length > 0);
        await plane.until(isFailing);
        const [{ rule: name, reason } = assert.fail()] = plane.reports.at(-1)?.failing ?? [];
        assert.equal(name, 'l');
        assert.match(reason, /needs a newer agent: .* field "except" of set/);
        assert.ok(!(await node.rules()).includes('192.0.2.0/24'));
        await agent.end('SIGTERM');
        if (isOver) return;
        await plane.stop();
        await node.lose();
        start('this');
        await untilMarked();
        assert.ok(!(await node.rules()).includes('192.0.2.0/24'), 'from its own state file');
        await plane.start();
        await agent.end('SIGTERM');
      }
    });
  },
  EITHER_IPTABLES,
);
