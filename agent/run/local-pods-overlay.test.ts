import assert from 'node:assert/strict';
import type { AddressSet, NodeState } from '../../apis/compiled.ts';
import { addressSet, stateOf } from '../../test/fake/compiled-rule.ts';
import { localPodsOverlay } from './local-pods-overlay.ts';

describe('localPodsOverlay', () => {
  const first = addressSet('local-pods');
  const second = addressSet('local-pods');
  let now: AddressSet | null;
  let listeners: Set<() => void>;
  let submitted: NodeState[];
  const overlaid = () =>
    localPodsOverlay(
      {
        now: () => now,
        listen(changed) {
          listeners.add(changed);
          return () => listeners.delete(changed);
        },
      },
      (state) => submitted.push(state),
    );
  const become = (set: AddressSet) => {
    now = set;
    for (const changed of listeners) changed();
  };
  beforeEach(() => {
    now = null;
    listeners = new Set();
    submitted = [];
  });

  it('passes on a state while no routes are known', () => {
    const state = stateOf([]);
    overlaid().submit(state);
    assert.deepEqual(submitted, [state]);
    assert.equal(submitted[0], state);
  });

  it('submits the latest state again after each change, and maps it back to the original', () => {
    const overlay = overlaid();
    become(first);
    assert.equal(submitted.length, 0, 'nothing to submit yet');
    const [one, two] = [stateOf([]), stateOf([])];
    overlay.submit(one);
    overlay.submit(two);
    become(second);
    const known: readonly unknown[] = [first, second];
    assert.deepEqual(
      submitted.map(({ localPods }) => known.indexOf(localPods)),
      [0, 0, 1],
    );
    assert.deepEqual(
      submitted.map((state) => [one, two].indexOf(overlay.withoutLocalPods(state))),
      [0, 1, 1],
    );
    assert.equal(overlay.withoutLocalPods(one), one);
    overlay.close();
    become(first);
    assert.equal(submitted.length, 3);
  });
});
