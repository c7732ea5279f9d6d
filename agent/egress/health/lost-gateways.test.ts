import assert from 'node:assert/strict';
import type { EgressOutcome, EgressSlot } from '../../../apis/egress/node-egress.ts';
import { fakeNodeEgress } from '../../../test/fake/egress-objects.ts';
import { withoutLost } from './lost-gateways.ts';

const SLOTS: readonly EgressSlot[] = [
  { number: 1, node: 'a', take: 0 },
  { number: 2, node: 'b', take: 0 },
  { number: 3, node: 'c', take: 0 },
  { number: 4, node: 'self', take: 9 },
  { number: 5, node: 'a', take: 0, floating: '0 pool' },
];

type Action = EgressOutcome['action'];

/** The actions that are left, and the slots whose connections end. */
function left(lost: readonly string[], ...actions: readonly Action[]) {
  const outcomes = actions.map((action, i): EgressOutcome => {
    return { id: `${i}`, policy: null, audited: [], action };
  });
  const egress = fakeNodeEgress({
    outcomes: new Map(outcomes.map((one) => [one.id, one])),
    slots: new Map(SLOTS.map((slot) => [slot.number, slot])),
  });
  const now = withoutLost(egress, new Set(lost));
  return {
    isSame: now === egress,
    actions: [...now.outcomes.values()].map(({ action }) => action),
    ended: [...(now.ended ?? [])],
  };
}

describe('withoutLost', () => {
  const failover: Action = { kind: 'slots', slots: [1], reserve: [2, 3] };

  it('is the same object while everybody answers', () => {
    assert.ok(left(['other'], failover).isSame);
  });

  it('goes to the next in reserve that answers, and ends what went by the lost one', () => {
    assert.deepEqual(left(['a'], failover), {
      isSame: false,
      actions: [{ ...failover, slots: [2] }],
      ended: [1],
    });
    const { actions, ended } = left(['a', 'b'], failover);
    assert.deepEqual([actions, ended], [[{ ...failover, slots: [3] }], [1, 2]]);
  });

  it('ends what went by a lost gateway in reserve', () => {
    assert.deepEqual(left(['b'], failover).ended, [2]);
  });

  it('takes this node itself where it is in reserve', () => {
    const own: Action = { kind: 'slots', slots: [1], reserve: [4, 2] };
    assert.deepEqual(left(['a'], own).actions, [{ ...own, slots: [4] }]);
  });

  it('has one gateway less of a Spread', () => {
    const spread: Action = { kind: 'slots', slots: [1, 2, 4] };
    assert.deepEqual(left(['a'], spread), {
      isSame: false,
      ended: [1],
      actions: [{ kind: 'slots', slots: [2, 4] }],
    });
  });

  it('drops as not-ready without any, and lets the connections be: the fault may be its own', () => {
    const { actions, ended } = left(['a', 'b', 'c'], failover);
    assert.deepEqual([actions, ended], [[{ kind: 'drop', reason: 'not-ready' }], []]);
  });

  it('leaves directly without any, if the policy says so', () => {
    const direct: Action = { kind: 'slots', slots: [1], otherwise: 'Direct' };
    const { actions, ended } = left(['a'], direct);
    assert.deepEqual([actions, ended], [[{ kind: 'direct' }], [1]]);
  });

  it('leaves slots of floating addresses to leases', () => {
    const floating: Action = { kind: 'slots', slots: [5] };
    assert.deepEqual(left(['a'], floating).actions, [floating]);
    assert.deepEqual(left(['a'], floating).ended, []);
  });
});
