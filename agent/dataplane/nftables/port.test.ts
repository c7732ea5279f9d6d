import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../../apis/config.ts';
import { fakeKernel } from '../../../test/fake/fake-kernel.ts';
import { closing, nodeState } from '../../../test/fake/node-state.ts';
import { toNftError } from '../../../test/fake/table.ts';
import type { Kernel } from '../../apply/netlink/kernel.ts';
import { NodeRuleReconciler } from '../../apply/reconciler.ts';
import { renderer } from '../../render/render.ts';
import { nftLeftOvers } from './port.ts';

describe('left-overs in nftables', () => {
  it('are the table', async () => {
    const kernel = fakeKernel();
    const leftOvers = nftLeftOvers(kernel);
    assert.deepEqual([await leftOvers.holdsRules(), await leftOvers.remove()], [false, []]);
    await new NodeRuleReconciler(kernel).apply(renderer(DEFAULT_CONFIG)(nodeState(closing('a', 80))));
    assert.equal(await leftOvers.holdsRules(), true);
    assert.deepEqual(await leftOvers.remove(), ['table inet nodewall']);
    assert.equal(kernel.table(), null);
    assert.deepEqual([await leftOvers.holdsRules(), await leftOvers.remove()], [false, []]);
  });

  it('are none if the kernel lacks nf_tables; other errors are thrown', async () => {
    const saying = (code: string): Kernel => ({
      ...fakeKernel(),
      snapshot: () => Promise.reject(toNftError(code, 'refused')),
      chains: () => Promise.reject(toNftError(code, 'refused')),
    });
    for (const code of ['EINVAL', 'EOPNOTSUPP', 'EPROTONOSUPPORT']) {
      const leftOvers = nftLeftOvers(saying(code));
      assert.deepEqual([await leftOvers.holdsRules(), await leftOvers.remove()], [false, []], code);
    }
    const refused = nftLeftOvers(saying('EPERM'));
    await assert.rejects(refused.holdsRules(), { code: 'EPERM' });
    await assert.rejects(refused.remove(), { code: 'EPERM' });
  });
});
