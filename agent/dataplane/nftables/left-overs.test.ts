import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../../apis/config.ts';
import { fakeKernel } from '../../../test/fake/fake-kernel.ts';
import { closing, nodeState } from '../../../test/fake/node-state.ts';
import { toNftError } from '../../../test/fake/refusal.ts';
import type { Kernel } from '../../apply/netlink/kernel.ts';
import { NodeRuleReconciler } from '../../apply/reconciler.ts';
import { renderer } from '../../render/render.ts';
import { nftLeftOvers } from './left-overs.ts';

describe('what may be left in nftables', () => {
  it('is the table', async () => {
    const kernel = fakeKernel();
    const remains = nftLeftOvers(kernel);
    assert.deepEqual([await remains.holdsRules(), await remains.remove()], [false, []]);
    await new NodeRuleReconciler(kernel).apply(renderer(DEFAULT_CONFIG)(nodeState(closing('a', 80))));
    assert.equal(await remains.holdsRules(), true);
    assert.deepEqual(await remains.remove(), ['table inet nodewall']);
    assert.equal(kernel.table(), null);
    assert.deepEqual([await remains.holdsRules(), await remains.remove()], [false, []]);
  });

  it('is nothing where the kernel has no nf_tables; what else it says is no answer', async () => {
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
