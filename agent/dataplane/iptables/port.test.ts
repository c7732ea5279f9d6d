import assert from 'node:assert/strict';
import { fakeIptables } from '../../../test/fake/fake-iptables.ts';
import { RULESET } from '../../../test/fake/iptables-ruleset.ts';
import { IptablesReconciler } from '../../apply/iptables/reconciler.ts';
import type { IptablesTools } from '../../apply/iptables/tools.ts';
import { iptablesLeftOvers } from './port.ts';

describe('left-overs in a variant of iptables', () => {
  const legacy = (tools: IptablesTools | null) => iptablesLeftOvers('legacy', async () => tools);

  it('are none where none are possible', async () => {
    const leftOvers = legacy(null);
    assert.deepEqual([await leftOvers.holdsRules(), await leftOvers.remove()], [false, []]);
  });

  it('are jumps and chains, named with the variant; sets belong to both variants', async () => {
    const { tools } = fakeIptables();
    const leftOvers = legacy(tools);
    assert.equal(leftOvers.name, 'iptables (legacy)');
    assert.deepEqual([await leftOvers.holdsRules(), await leftOvers.remove()], [false, []]);
    await new IptablesReconciler(tools).apply(RULESET);
    const sets = (await tools.ipset.names()).length;
    assert.equal(await leftOvers.holdsRules(), true);
    const removed = await leftOvers.remove();
    assert.match(removed[0] ?? '', /^iptables, table filter: \d jumps, \d chains \(legacy\)$/);
    assert.ok(removed.some((words) => words.startsWith('ip6tables, ')));
    assert.doesNotMatch(await tools.save(4), /NODEWALL-/);
    assert.doesNotMatch(await tools.save(6), /NODEWALL-/);
    assert.equal((await tools.ipset.names()).length, sets);
    assert.deepEqual([await leftOvers.holdsRules(), await leftOvers.remove()], [false, []]);
  });
});
