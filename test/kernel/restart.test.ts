/** Rules stay in force however the agent ends, and while it starts. */
import assert from 'node:assert/strict';
import { rename } from 'node:fs/promises';
import { forEachDataplane } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { leakedDuring } from './flood.ts';
import { policy, tcp, udp } from './manifests.ts';
import { pause, until } from './until.ts';

const CLOSED = 9;
const MARKER = 20_000;

forEachDataplane('the agent ends and starts under a flood', (dataplane) => {
  let node: EnforcedNode;
  let agent: RunningAgent;
  let generation = 0;
  before(async () => {
    node = await createEnforcedNode(undefined, dataplane);
  });
  after(() => node?.close());

  beforeEach(async () => {
    await writeNext();
    agent = node.start();
    await node.untilEnforced(String(MARKER + generation), agent);
  });
  afterEach(() => agent?.end('SIGKILL'));

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
    it(`${signal}, changed files, start`, () =>
      assertNoLeak(async () => {
        for (let i = 0; i < 2; i++) {
          await agent.end(signal);
          await pause(200);
          await writeNext();
          agent = node.start();
          await node.untilEnforced(String(MARKER + generation), agent);
        }
      }));
  }

  it('kill -9 at any moment of a start or a change', () =>
    assertNoLeak(async () => {
      for (const after of [30, 100, 200, 300, 400, 600]) {
        await agent.end('SIGKILL');
        await writeNext();
        agent = node.start();
        await pause(after);
      }
      await node.untilEnforced(String(MARKER + generation), agent);
    }));

  it('a start without the manifests directory keeps the rules, and reads it once it exists', async () => {
    const away = `${node.manifests}.away`;
    await assertNoLeak(async () => {
      await agent.end('SIGTERM');
      await writeNext();
      await rename(node.manifests, away);
      agent = node.start();
      await until('the agent waits', async () => agent.log().includes('cannot read the manifests'));
      assert(agent.isRunning(), `the agent should wait:\n${agent.log()}`);
      await rename(away, node.manifests);
      await node.untilEnforced(String(MARKER + generation), agent);
    });
  });

  it('after a reboot without the directory, the saved state is enforced', async () => {
    const away = `${node.manifests}.away`;
    const before = await node.rules();
    await agent.end('SIGTERM');
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
});
