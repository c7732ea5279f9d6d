import assert from 'node:assert/strict';
import { fakeIptables } from '../../../test/fake/fakeiptables.ts';
import { IPTABLES_CASES, RULESET, withSets } from '../../../test/fake/iptablescases.ts';
import { IptablesReconciler } from './reconciler.ts';

describe('the reconciler of iptables', () => {
  for (const { name, run } of IPTABLES_CASES) it(name, () => run(fakeIptables().tools));

  it('learns how another version of iptables shows what was written', async () => {
    const { tools, restores } = fakeIptables({ shows: (text) => text.replace('--dport 80', '--dport http') });
    const reconciler = new IptablesReconciler(tools);
    await reconciler.apply(RULESET);
    assert.deepEqual(await reconciler.verify(), ['iptables filter: chain NODEWALL-WEB was changed']);
    await reconciler.apply(RULESET);
    assert.deepEqual(await reconciler.verify(), []);
    const before = restores.length;
    assert.ok((await reconciler.apply(RULESET)).change.isEmpty);
    assert.equal(restores.length, before);
    await tools.restore(4, '*filter\n-A NODEWALL-WEB -j DROP\nCOMMIT\n');
    assert.deepEqual(await reconciler.verify(), ['iptables filter: chain NODEWALL-WEB was changed']);
  });

  it('repairs what a restore left half done', async () => {
    const { tools, exec } = fakeIptables();
    const reconciler = new IptablesReconciler(tools);
    await reconciler.apply(RULESET);
    // Somebody took a set that is needed: what is known of it is wrong, and found out by the failure.
    await tools.restore(4, '*filter\n:NODEWALL-INPUT - [0:0]\n:NODEWALL-WEB - [0:0]\nCOMMIT\n');
    await exec(['destroy', 'nodewall-web-4']);
    await reconciler.apply(withSets([...RULESET.sets.values()], ['-j DROP']));
    assert.deepEqual(await reconciler.verify(), []);
  });

  it('gives what a rule counted that is gone to the other rules of its policy rule', async () => {
    const { tools, count } = fakeIptables();
    const reconciler = new IptablesReconciler(tools);
    const sets = [...RULESET.sets.values()];
    await reconciler.apply(withSets(sets, ['-p tcp -j DROP @two']));
    count(4, 'NODEWALL-WEB -p tcp -j DROP', 3, 300);
    count(4, 'NODEWALL-WEB -m set --match-set nodewall-services-4 dst,dst -j DROP', 4, 400);
    await reconciler.apply(withSets(sets, []));
    const chain = (await reconciler.counts())?.chains.find(({ name }) => name === 'two/matched/iptables');
    assert.deepEqual(chain?.rules, [{ packets: 7n, bytes: 700n }]);
    assert.ok(Number.isSafeInteger(chain?.handle));
  });
});
