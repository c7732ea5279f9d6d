/** Rules stay in force however the agent ends, and while it starts. */
import assert from 'node:assert/strict';
import { rename } from 'node:fs/promises';
import { EITHER_IPTABLES, forEachDataplane, itForAny } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { leakedDuring } from './flood-tool.ts';
import { policy, tcp, udp } from './manifests.ts';
import { pause, until } from './until.ts';

const CLOSED = 9;
const MARKER = 20_000;

forEachDataplane(
  'the agent ends and starts under a flood',
  (dataplane) => {
    const itOnce = itForAny(dataplane);
    let node: EnforcedNode;
    let agent: RunningAgent | undefined;
    let generation = 0;
    before(async () => {
      node = await createEnforcedNode(undefined, dataplane);
    });
    after(() => node?.close());

    /** That of an earlier test, or another one. */
    async function running(): Promise<RunningAgent> {
      if (agent?.isRunning()) return agent;
      await writeNext();
      agent = node.start();
      await node.untilEnforced(String(MARKER + generation), agent);
      return agent;
    }

    /** A change that shows in the table when an agent has read it. */
    async function writeNext(): Promise<void> {
      generation++;
      const rules = [
        { name: 'close', action: 'Drop', ports: [udp(CLOSED)] },
        { name: 'marker', action: 'Drop', ports: [tcp(MARKER + generation)] },
      ] as const;
      await node.write('policy.json', [policy('closed', { ingress: rules })]);
    }

    async function assertNoLeak(action: () => Promise<void>): Promise<void> {
      const { sent, leaked } = await leakedDuring(
        node.topology,
        { protocol: 'udp', port: CLOSED, family: 4 },
        action,
      );
      assert(sent > 1_000, `only ${sent} packets`);
      assert.equal(leaked, 0, `leaked ${leaked} of ${sent}`);
    }

    for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
      const itIs = signal === 'SIGKILL' ? it : itOnce;
      itIs(`${signal}, changed files, start`, async () => {
        const before = await running();
        await assertNoLeak(async () => {
          await before.end(signal);
          await pause(200);
          await writeNext();
          agent = node.start();
          await node.untilEnforced(String(MARKER + generation), agent);
        });
      });
    }

    it('kill -9 at any moment of a start or a change', async () => {
      let last = await running();
      await assertNoLeak(async () => {
        for (const after of [30, 100, 200, 300, 400, 600]) {
          await last.end('SIGKILL');
          await writeNext();
          last = node.start();
          agent = last;
          await pause(after);
        }
        await node.untilEnforced(String(MARKER + generation), last);
      });
    });

    itOnce(
      'a start without the manifests directory keeps the rules, and reads it once it exists',
      async () => {
        const away = `${node.manifests}.away`;
        const before = await running();
        await assertNoLeak(async () => {
          await before.end('SIGTERM');
          await writeNext();
          await rename(node.manifests, away);
          const next = node.start();
          agent = next;
          await until('the agent waits', async () => next.log().includes('cannot read the manifests'));
          assert(next.isRunning(), `the agent should wait:\n${next.log()}`);
          await rename(away, node.manifests);
          await node.untilEnforced(String(MARKER + generation), next);
        });
      },
    );

    itOnce('after a reboot without the directory, the saved state is enforced', async () => {
      const away = `${node.manifests}.away`;
      const last = await running();
      const before = await node.rules();
      await last.end('SIGTERM');
      await node.lose();
      await rename(node.manifests, away);
      try {
        agent = node.start();
        await node.untilEnforced(String(MARKER + generation), agent);
        assert.equal(await node.rules(), before);
      } finally {
        await rename(away, node.manifests);
      }
    });
  },
  EITHER_IPTABLES,
);
