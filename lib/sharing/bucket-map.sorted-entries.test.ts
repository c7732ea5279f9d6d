import assert from 'node:assert/strict';
import fc from 'fast-check';
import { REMOVED, SortedEntries } from './bucket-map.ts';

const CHANGE = fc.tuple(
  fc.constantFrom('', 'a', 'aa', 'b', 'c', 'd', '~'),
  fc.oneof(fc.constant(REMOVED), fc.nat(2)),
);
type Value = number | typeof REMOVED;

function changed(entries: SortedEntries<number>, list: readonly (readonly [string, Value])[]) {
  const [keys, values] = [list.map(([key]) => key), list.map(([, value]) => value)];
  return entries.with({ keys, values }, Uint32Array.from(keys.keys()));
}

describe('sorted entries', () => {
  it('property: are those of a Map with the same changes, sorted, whatever the steps', () => {
    fc.assert(
      fc.property(fc.array(fc.array(CHANGE, { maxLength: 6 }), { maxLength: 6 }), (steps) => {
        const model = new Map<string, number>();
        let entries = SortedEntries.empty<number>();
        for (const step of steps) {
          const [before, were] = [entries, [...entries]];
          entries = changed(entries, step);
          for (const [key, value] of step) {
            if (value === REMOVED) model.delete(key);
            else model.set(key, value);
          }
          const wanted = [...model].sort(([a], [b]) => (a < b ? -1 : 1));
          assert.deepEqual([...entries], wanted);
          assert.deepEqual(
            [[...entries.keys()], [...entries.values()]],
            [wanted.map(([key]) => key), wanted.map(([, value]) => value)],
          );
          const called: [string, number][] = [];
          entries.forEach((value, key) => {
            called.push([key, value]);
          });
          assert.deepEqual([called, entries.size], [wanted, wanted.length]);
          for (const key of ['', 'a', 'ab', 'b', '~~'])
            assert.deepEqual([entries.get(key), entries.has(key)], [model.get(key), model.has(key)]);
          assert.deepEqual([...before], were, 'the version before stays');
        }
      }),
    );
  });

  it('are the same object if nothing changes', () => {
    const entries = changed(SortedEntries.empty(), [
      ['b', 2],
      ['a', 1],
    ]);
    const same = changed(entries, [
      ['a', 1],
      ['c', REMOVED],
    ]);
    assert.equal(same, entries);
  });
});
