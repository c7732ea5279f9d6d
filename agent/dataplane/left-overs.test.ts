import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { fakeIptables } from '../../test/fake/fake-iptables.ts';
import { fakeKernel } from '../../test/fake/fake-kernel.ts';
import { RULESET } from '../../test/fake/iptables-cases.ts';
import { closing, nodeState } from '../../test/fake/node-state.ts';
import { toNftError } from '../../test/fake/refusal.ts';
import { IptablesReconciler } from '../apply/iptables/reconciler.ts';
import type { IptablesTools } from '../apply/iptables/tools.ts';
import type { Kernel } from '../apply/netlink/kernel.ts';
import { NodeRuleReconciler } from '../apply/reconciler.ts';
import { renderer } from '../render/render.ts';
import { iptablesLeftOvers, nftLeftOvers } from './left-overs.ts';

describe('left-overs in nftables', () => {
  it('are the table', async () => {
    const kernel = fakeKernel();
    const remains = nftLeftOvers(kernel);
    assert.deepEqual([await remains.holdsRules(), await remains.remove()], [false, []]);
    await new NodeRuleReconciler(kernel).apply(renderer(DEFAULT_CONFIG)(nodeState(closing('a', 80))));
    assert.equal(await remains.holdsRules(), true);
    assert.deepEqual(await remains.remove(), ['table inet nodewall']);
    assert.equal(kernel.table(), null);
    assert.deepEqual([await remains.holdsRules(), await remains.remove()], [false, []]);
  });

  it('are none if the kernel lacks nf_tables; other errors are thrown', async () => {
    const saying = (code: string): Kernel => ({
      ...fakeKernel(),
      snapshot: () => Promise.reject(toNftError(code, 'refused')),
    });
    for (const code of ['EINVAL', 'EOPNOTSUPP', 'EPROTONOSUPPORT']) {
      const remains = nftLeftOvers(saying(code));
      assert.deepEqual([await remains.holdsRules(), await remains.remove()], [false, []], code);
    }
    const refused = nftLeftOvers(saying('EPERM'));
    await assert.rejects(refused.holdsRules(), { code: 'EPERM' });
    await assert.rejects(refused.remove(), { code: 'EPERM' });
  });
});

describe('left-overs in a variant of iptables', () => {
  const legacy = (tools: IptablesTools | null) => iptablesLeftOvers('legacy', async () => tools);

  it('are none where none are possible', async () => {
    const remains = legacy(null);
    assert.deepEqual([await remains.holdsRules(), await remains.remove()], [false, []]);
  });

  it('are jumps and chains, named with the variant; sets belong to both variants', async () => {
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
