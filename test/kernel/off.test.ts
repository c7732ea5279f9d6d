/**
 * `nodewall off`: nothing of it is in the kernel, until `nodewall on`. The stand-alone agent, and
 * none at all.
 */
import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EITHER_IPTABLES, forEachDataplane, itForAny } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { policy, tcp } from './manifests.ts';
import { until } from './until.ts';

forEachDataplane(
  'nodewall off',
  (dataplane) => {
    const itOnce = itForAny(dataplane);
    let node: EnforcedNode;
    let agent: RunningAgent | null;
    let marker = 20_000;
    before(async () => {
      node = await createEnforcedNode(undefined, dataplane);
    });
    after(() => node?.close());
    beforeEach(async () => {
      agent = null;
      await writeNext();
    });
    afterEach(async () => {
      await agent?.end('SIGKILL');
      await rm(file(), { force: true });
    });

    const file = (): string => join(node.stateDir, 'off');
    const writeNext = (): Promise<void> =>
      node.write('policy.json', [
        policy('marked', { ingress: [{ name: 'marker', action: 'Drop', ports: [tcp(++marker)] }] }),
      ]);
    const started = (): RunningAgent => {
      agent = node.start();
      return agent;
    };
    const untilMarked = (by: RunningAgent) => node.untilEnforced(String(marker), by);
    const says = (by: RunningAgent, text: string) =>
      until(`the agent says ${text}`, async () => by.log().includes(text), { detail: by.log });

    itOnce(
      'returns when the agent has removed its rules; they stay removed over edits and restarts until nodewall on',
      async () => {
        const first = started();
        await untilMarked(first);
        const { stdout } = await node.ask('off', '--reason', 'maintenance');
        assert.equal(await node.rules(), '');
        assert.match(stdout, /nodewall is off on this node.*\(process \d+\).*until: nodewall on/);
        await says(first, 'maintenance');
        await writeNext();
        await first.end('SIGKILL');
        const second = started();
        await says(second, 'nodewall is off on this node');
        await says(second, '"message":"disabled"');
        assert.equal(await node.rules(), '');
        const on = await node.ask('on', '-o', 'json');
        assert.deepEqual({ ...JSON.parse(on.stdout), agent: 0 }, { off: false, wasOff: true, agent: 0 });
        await untilMarked(second);
        await second.end('SIGTERM');
        assert.notEqual(await node.rules(), '', 'the rules stay');
        await node.cleanup();
      },
    );

    itOnce('is a file that can be created and removed by hand', async () => {
      const one = started();
      await untilMarked(one);
      await writeFile(file(), '');
      await until('the rules are gone', async () => (await node.rules()) === '', { detail: one.log });
      await rm(file());
      await untilMarked(one);
    });

    it('without an agent removes the rules itself, and the next agent stays off', async () => {
      await node.again();
      assert.notEqual(await node.rules(), '');
      const { stdout } = await node.ask('off', '-o', 'json');
      const { off, agent: who, removed } = JSON.parse(stdout);
      assert.deepEqual([off, who], [true, null]);
      assert.ok(removed.length > 0);
      assert.equal(await node.rules(), '');
      await node.again();
      assert.equal(await node.rules(), '');
      assert.match((await node.ask('off')).stdout, /No agent runs here/);
      assert.match((await node.ask('on')).stdout, /on again.*an agent that starts enforces/);
      assert.match((await node.ask('on')).stdout, /was not off/);
      await node.again();
      assert.notEqual(await node.rules(), '');
    });
  },
  EITHER_IPTABLES,
);
