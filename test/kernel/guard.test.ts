/**
 * Guarded apply, stand-alone: a change that cuts a probe off is taken back and held. guard.long.ts
 * has many of them, on each dataplane, and interruptions at any moment.
 */
import assert from 'node:assert/strict';
import { dataplaneSuite, NFTABLES } from './dataplane.ts';
import { GuardedNode } from './guarded-node.ts';
import { until } from './until.ts';

dataplaneSuite('guarded apply', NFTABLES, () => {
  let guarded: GuardedNode;
  before(async () => {
    guarded = await GuardedNode.create(NFTABLES);
  });
  after(() => guarded?.close());

  it('confirms a change that the probes pass, takes back one that cuts a probe off, and tries it again by hand', async () => {
    const { node } = guarded;
    await guarded.harmless(20_001);
    await guarded.start();
    await guarded.says('the rules are confirmed');
    await guarded.cut(20_002);
    await node.untilEnforced('20002', guarded.agent);
    await guarded.says('rolled back to the last confirmed rules');
    const isBack = async () => (await guarded.has('20001')) && !(await guarded.has('20002'));
    await until('the confirmed rules are back', isBack, { detail: guarded.agent.log });
    await guarded.says('the probe passes again after the rollback');

    await guarded.harmless(20_003);
    await node.untilEnforced('20003', guarded.agent);
    assert.equal(await guarded.has('20002'), false, 'another change goes on without it');
    await until('the record', async () => (await guarded.file('records.jsonl')) !== '');
    const { event, probe, policy, rule } = JSON.parse(await guarded.file('records.jsonl'));
    assert.deepEqual([event, ['v4', 'v6'].includes(probe), policy, rule], ['rolledBack', true, 'cut', 'out']);

    const { stdout } = await node.run('retry', 'cut', '-o', 'json');
    assert.deepEqual(JSON.parse(stdout), { retried: ['nodewall.io/cut'] });
    await guarded.says('are in force and tried', 4);
    await node.lose();
    await guarded.says('a change was interrupted before it was confirmed');
    await guarded.says('are in force and tried', 5);
    assert.match((await node.run('confirm')).stdout, /Confirmed: nodewall.io\/cut/);
    await until('it is what survives', async () =>
      (await guarded.file('node-state.jsonl')).includes('20002'),
    );
  });
});
