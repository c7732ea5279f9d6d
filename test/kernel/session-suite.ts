/**
 * Claims about sessions that are open when the first rules come: none is lost, whatever its kind.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EITHER_IPTABLES, forEachDataplane } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { type PolicyOptions, policy, tcp, udp } from './manifests.ts';
import { OpenSessions, PORTS } from './open-sessions.ts';
import { connects } from './talk.ts';
import { until } from './until.ts';

const IN: PolicyOptions = { ingress: [{ name: 'in', action: 'Drop' }] };
const OUT: PolicyOptions = { egress: [{ name: 'out', action: 'Drop' }] };
const BOTH: PolicyOptions = { ...IN, ...OUT };

/** @param count sessions of each step */
export function openSessionsSuite(count: number): void {
  forEachDataplane(
    'sessions that are open before the first rules',
    (dataplane) => {
      let node: EnforcedNode;
      let sessions: OpenSessions;
      let marker = 23_000;

      beforeEach(async () => {
        // Nothing has tracked a connection in this namespace: each test needs a new one.
        node = await createEnforcedNode(undefined, dataplane);
        sessions = await OpenSessions.start(node.topology);
      });
      afterEach(() => node?.close());

      async function write(...policies: readonly object[]): Promise<void> {
        const mark = { ingress: [{ name: 'marker', action: 'Drop', ports: [tcp(++marker)] }] } as const;
        await node.write('policies.json', [policy('marker', { priority: 1, ...mark }), ...policies]);
      }

      const inForce = (agent: RunningAgent) => node.untilEnforced(String(marker), agent);

      async function assertNoneLost(agent?: RunningAgent): Promise<void> {
        const alive = new Set(await sessions.alive());
        const lost = sessions.ids.filter((id) => !alive.has(id));
        assert.deepEqual(lost, [], agent?.log().slice(-2000));
      }

      it('go on under a deny of everything, and what begins then is denied', async () => {
        await sessions.open(count);
        await write(policy('all', BOTH));
        await node.once();
        await assertNoneLost();
        const { topology } = node;
        const [client] = topology.clients;
        const [own] = topology.plan.nodeAddresses;
        assert.ok(client !== undefined && own !== undefined);
        assert.equal(await connects(client, own.v4, PORTS.any, 500), false);
      });

      it('go on under ingress rules alone, and those begun during nodewall off under egress rules', async () => {
        await sessions.open(count);
        await write(policy('in', IN));
        const agent = node.start();
        await inForce(agent);
        await assertNoneLost(agent);
        await node.ask('off');
        await until('nothing is in force', async () => (await node.rules()) === '');
        await sessions.open(count);
        await write(policy('out', OUT));
        await node.ask('on');
        await inForce(agent);
        await assertNoneLost(agent);
      });

      it('go on through restarts, and while all policies are removed and added again', async () => {
        await write(policy('all', BOTH));
        await node.write('policies.json', []);
        let agent = node.start();
        await until('the agent enforces no policy', async () => agent.log().includes('enforced"'));
        await sessions.open(count);
        await write(policy('all', BOTH));
        await inForce(agent);
        await assertNoneLost(agent);
        await agent.end('SIGKILL');
        agent = node.start();
        await write(policy('all', BOTH));
        await inForce(agent);
        await assertNoneLost(agent);
      });

      it('are ended by a first policy with established: Recheck, if a rule of it denies them', async () => {
        await sessions.open(count);
        const kept = sessions.ids;
        const denied = await sessions.open(count, 'ended');
        const ports = [tcp(PORTS.ended), udp(PORTS.ended)];
        const ended = (name: string) => [{ name, action: 'Drop', ports }] as const;
        await write(
          policy('recheck', { established: 'Recheck', ingress: ended('in'), egress: ended('out') }),
          policy('rest', { priority: 9, ...BOTH }),
        );
        const agent = node.start();
        await inForce(agent);
        let records: string[] = [];
        await until(`${denied} records of ended sessions`, async () => {
          const text = await readFile(join(node.stateDir, 'records.jsonl'), 'utf8').catch(() => '');
          records = text.split('\n').filter((line) => line.includes('"event":"ended"'));
          return records.length >= denied;
        });
        assert.deepEqual(await sessions.alive(), kept);
        const directions = new Set<string>();
        for (const line of records) {
          const { direction, dstPort, protocol } = JSON.parse(line);
          assert.equal(dstPort, PORTS.ended, line);
          directions.add(`${direction} ${protocol}`);
        }
        assert.deepEqual([...directions].sort(), ['egress tcp', 'egress udp', 'ingress tcp', 'ingress udp']);
      });
    },
    EITHER_IPTABLES,
  );
}
