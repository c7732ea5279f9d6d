import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Pod } from '../../../apis/objects.ts';
import { compareObjects } from '../merge.ts';
import { sortedList } from './sorted-list.ts';

const pod = (namespace: string, name: string): Pod => {
  return { kind: 'Pod', namespace, name, labels: {}, serviceAccount: 'default', addresses: [] };
};

describe('sortedList', () => {
  it('equals a sorted map after any changes', () => {
    const change = fc.record({
      namespace: fc.constantFrom('a', 'a-b', 'a.b', 'b'),
      name: fc.constantFrom('x', 'x-1', 'y', 'z', 'p', 'q', 'r', 's'),
      isThere: fc.boolean(),
    });
    const batches = fc.array(fc.array(change, { maxLength: 80, size: 'max' }), { maxLength: 6 });
    fc.assert(
      fc.property(batches, (all) => {
        const list = sortedList<Pod>();
        const held = new Map<string, Pod>();
        for (const batch of all) {
          for (const { namespace, name, isThere } of batch) {
            const key = `${namespace}/${name}`;
            const before = held.get(key) ?? null;
            const now = isThere ? pod(namespace, name) : null;
            list.change(before, now);
            if (now === null) held.delete(key);
            else held.set(key, now);
          }
          const array = list.array();
          const expected = [...held.values()].sort(compareObjects);
          assert.equal(array.length, expected.length);
          assert.ok(array.every((one, i) => one === expected[i]));
          assert.equal(list.array(), array);
        }
      }),
    );
  });

  it('returns the same array if nothing changed in the end', () => {
    const list = sortedList<Pod>();
    const [one, other] = [pod('a', 'x'), pod('a', 'x')];
    list.change(null, one);
    const array = list.array();
    list.change(one, other);
    list.change(other, one);
    list.change(null, pod('b', 'y'));
    list.change(pod('b', 'y'), null);
    assert.equal(list.array(), array);
  });
});
