import assert from 'node:assert/strict';
import { toMemberSet } from '../../lib/net/member-set.ts';
import { nodeEgress } from '../../test/kernel/egress-values.ts';
import { fromSavedEgress, toSavedEgress } from './saved-egress.ts';

describe('saved egress', () => {
  it('is read as it was written', () => {
    const places = {
      nodes: [
        { name: 'a', v4: '192.0.2.1', v6: '2001:db8::1' },
        { name: 'b', v4: '192.0.2.2', v6: '2001:db8::2' },
      ],
      pods: [
        { name: 'p', node: 'a', v4: '10.0.0.1', v6: 'fd00::1' },
        { name: 'q', node: 'b', v4: '10.0.0.2', v6: 'fd00::2' },
      ],
    };
    for (const node of ['a', 'b']) {
      const value = nodeEgress(places, node, [{ pods: ['p', 'q'], gateways: ['b'] }]);
      const floating = toMemberSet([], ['203.0.113.1']);
      const egress = {
        ...value,
        floating,
        subnets: [{ family: 4, range: { first: 1n, last: 2n }, class: 'x' }],
      } as const;
      assert.deepEqual(fromSavedEgress(toSavedEgress(egress)), egress);
    }
  });
});
