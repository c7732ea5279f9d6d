import assert from 'node:assert/strict';
import { toMemberSet } from '../../lib/net/member-set.ts';
import { finish } from '../../lib/sharing/stepwise.ts';
import { fakeNodeEgress } from '../../test/fake/egress-objects.ts';
import { stateOf } from '../../test/fake/node-state.ts';
import { EGRESS_VIEW } from './egress-view.ts';

const OWN = fakeNodeEgress({
  inside: toMemberSet([], ['192.0.2.1', '192.0.2.2']),
  sources: new Map([['10.0.0.1', null]]),
});
const PART = { egress: new Map([['a', OWN]]) };

describe('egress gateways in the view of a node', () => {
  it('are nothing where the gate is off, or for another node', () => {
    for (const part of [{}, PART]) {
      assert.equal(EGRESS_VIEW.whole(part, 'b'), null);
      assert.deepEqual(EGRESS_VIEW.count(part, 'b'), {});
    }
    assert.deepEqual(EGRESS_VIEW.written(stateOf([])), {});
  });

  it('are a message, and one for each object that is not empty; sets are shared by nodes', () => {
    const { first, objects } = EGRESS_VIEW.whole(PART, 'a') ?? assert.fail();
    assert.equal(first.type, 'egress');
    const found = [...objects].map(({ id, isShared, toMessage }) => [id, isShared, toMessage().type]);
    assert.deepEqual(found, [
      ['inside', true, 'egressMembers'],
      ['sources/0', false, 'egressEntries'],
    ]);
    assert.deepEqual(EGRESS_VIEW.count(PART, 'a'), { egress: 3 });
  });

  it('change by messages between two states, not where the gate was turned', () => {
    const other = { egress: new Map([['b', OWN]]) };
    const types = (before: typeof PART | object, now: typeof PART | object) =>
      finish(EGRESS_VIEW.changes(before, now)).map(({ toUpdate, nodes }) => [toUpdate().type, ...nodes]);
    assert.deepEqual([types({}, PART), types(PART, {}), types(PART, PART)], [[], [], []]);
    assert.deepEqual(types(PART, other).slice(0, 1), [['egress', 'b']]);
    assert.deepEqual(types(PART, other).at(-1), ['egressRemoved', 'a']);
  });
});
