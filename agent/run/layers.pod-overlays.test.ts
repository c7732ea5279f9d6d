import assert from 'node:assert/strict';
import type { AddressSet } from '../../apis/compiled.ts';
import { addressSet, stateOf } from '../../test/fake/node-state.ts';
import { type Envelope, envelopeOf } from '../apply/envelope.ts';
import { localPodsOverlay } from './layers.ts';

describe('localPodsOverlay', () => {
  const first = addressSet('local-pods');
  const second = addressSet('local-pods');
  let now: AddressSet | null;
  let listeners: Set<() => void>;
  let submitted: Envelope[];
  const overlaid = () =>
    localPodsOverlay(
      {
        now: () => now,
        listen(changed) {
          listeners.add(changed);
          return () => listeners.delete(changed);
        },
      },
      (envelope) => submitted.push(envelope),
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
    const envelope = envelopeOf(stateOf([]));
    overlaid().submit(envelope);
    assert.deepEqual(submitted, [envelope]);
    assert.equal(submitted[0], envelope);
  });

  it('submits the latest state again after each change, with its original', () => {
    const overlay = overlaid();
    become(first);
    assert.equal(submitted.length, 0, 'nothing to submit yet');
    const [one, two] = [stateOf([]), stateOf([])];
    overlay.submit(envelopeOf(one));
    overlay.submit(envelopeOf(two));
    become(second);
    const known: readonly unknown[] = [first, second];
    assert.deepEqual(
      submitted.map(({ resolved }) => known.indexOf(resolved.localPods)),
      [0, 0, 1],
    );
    assert.deepEqual(
      submitted.map(({ plain }) => [one, two].indexOf(plain)),
      [0, 1, 1],
    );
    overlay.close();
    become(first);
    assert.equal(submitted.length, 3);
  });
});
