import assert from 'node:assert/strict';
import type { NodeState } from '../../../apis/compiled.ts';
import { DEFAULT_CONFIG } from '../../../apis/config.ts';
import { fakeKernel } from '../../../test/fake/fake-kernel.ts';
import { closing, nodeState } from '../../../test/fake/node-state.ts';
import { NodeRuleReconciler } from '../../apply/reconciler.ts';
import { DEADLINE_SETS, deadlineOf } from '../../render/deadline.ts';
import { renderer } from '../../render/render.ts';
import { nftDeadline } from './nftables-dataplane.ts';

const SECONDS = 30_000;
const plain = nodeState(closing('a', 80));
const tried: NodeState = {
  ...plain,
  deadline: {
    milliseconds: SECONDS,
    entries: [{ protocol: 'tcp', ports: [7443, 7443], peers: ['192.0.2.1', '2001:db8::1'] }],
    flows: [{ direction: 'egress', dst: '192.0.2.2', protocol: 'udp', dstPort: 514 }],
  },
};

describe('the deadline in nftables', () => {
  it('comes and goes with the rules, is no drift, and says whether it was there', async () => {
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    const deadline = nftDeadline(kernel, (generation) => reconciler.committed(generation));
    const render = renderer(DEFAULT_CONFIG);
    await reconciler.apply(render(plain));
    await assert.rejects(deadline.move(SECONDS), { code: 'ENOENT' });
    assert.equal(await deadline.isThere(), false);
    const desired = render(tried);
    assert.equal(deadlineOf(desired), SECONDS);
    const { transaction } = await reconciler.apply(desired);
    assert.equal(await deadline.isThere(), true);
    const { prepare } = transaction;
    const added = prepare.flatMap((one) => (one.kind === 'addElements' ? one : []));
    assert.deepEqual(
      added.map(({ set, timeouts }) => [set, timeouts]),
      Object.values(DEADLINE_SETS).map((set) => [set, [SECONDS]]),
    );
    assert.equal(await deadline.move(SECONDS), true);
    assert.equal(await deadline.move(SECONDS), true);
    assert.deepEqual(await reconciler.verify(), []);
    const gone = { set: DEADLINE_SETS[6], keyLength: 16, interval: false, keys: new Uint8Array(16) };
    await kernel.transact([{ ...gone, kind: 'deleteElements' }]);
    assert.deepEqual(await reconciler.verify(), [], 'an element that is over is no drift');
    assert.deepEqual([await deadline.move(SECONDS), await deadline.move(SECONDS)], [false, true]);
    assert.equal((await reconciler.apply(render(tried))).change.isEmpty, true);
    await reconciler.apply(render(plain));
    assert.deepEqual(await reconciler.verify(), []);
    assert.equal(kernel.table()?.sets.has(DEADLINE_SETS[4]), false);
  });
});
