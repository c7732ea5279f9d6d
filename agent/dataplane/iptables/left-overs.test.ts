import assert from 'node:assert/strict';
import { fakeIptables } from '../../../test/fake/fake-iptables.ts';
import { RULESET } from '../../../test/fake/iptables-cases.ts';
import { IptablesReconciler } from '../../apply/iptables/reconciler.ts';
import type { IptablesTools } from '../../apply/iptables/tools.ts';
import { iptablesLeftOvers } from './left-overs.ts';

describe('what may be left in a variant of iptables', () => {
  const legacy = (tools: IptablesTools | null) => iptablesLeftOvers('legacy', async () => tools);

  it('is nothing where there can be nothing', async () => {
    const remains = legacy(null);
    assert.deepEqual([await remains.holdsRules(), await remains.remove()], [false, []]);
  });

  it('are jumps and chains, named with the variant; sets are both variants’', async () => {
    const { tools } = fakeIptables();
    const remains = legacy(tools);
    assert.equal(remains.name, 'iptables (legacy)');
    assert.deepEqual([await remains.holdsRules(), await remains.remove()], [false, []]);
    await new IptablesReconciler(tools).apply(RULESET);
    const sets = (await tools.ipset.list()).length;
    assert.equal(await remains.holdsRules(), true);
    const removed = await remains.remove();
    assert.match(removed[0] ?? '', /^iptables, table filter: \d jumps, \d chains \(legacy\)$/);
    assert.ok(removed.some((words) => words.startsWith('ip6tables, ')));
    assert.doesNotMatch(await tools.save(4), /NODEWALL-/);
    assert.doesNotMatch(await tools.save(6), /NODEWALL-/);
    assert.equal((await tools.ipset.list()).length, sets);
    assert.deepEqual([await remains.holdsRules(), await remains.remove()], [false, []]);
  });
});
