import assert from 'node:assert/strict';
import fc from 'fast-check';
import { changedIds, changedMap } from './changed-map.ts';

describe('changedMap', () => {
  const one = (id: string, value = 0) => ({ id, value });
  const before = new Map(['b', 'd', 'f'].map((id) => [id, one(id)]));

  it('stays sorted by id after additions, removals and changes', () => {
    const now = changedMap(before, {
      removed: ['b'],
      changed: [one('g'), one('d', 1), one('e'), one('a')],
    });
    assert.deepEqual([...now.values()], [one('a'), one('d', 1), one('e'), one('f'), one('g')]);
    assert.equal(now.get('f'), before.get('f'));
    assert.deepEqual([...before.keys()], ['b', 'd', 'f']);
  });

  it('is the same map if nothing changes', () => {
    assert.equal(changedMap(before, { removed: [], changed: [] }), before);
  });

  it('equals a new map after any changes, and returns the changed ids', () => {
    const ids = fc.uniqueArray(fc.constantFrom(...'abcdefghijklmnopqrst'), { maxLength: 4 });
    const changes = fc.array(fc.record({ removed: ids, changed: ids, isReplacing: fc.boolean() }), {
      maxLength: 12,
    });
    fc.assert(
      fc.property(changes, (steps) => {
        let now: ReadonlyMap<string, { id: string; value: number }> = new Map();
        const states = [now];
        for (const [value, { removed: leave, changed: come, isReplacing }] of steps.entries()) {
          const gone = isReplacing ? [] : leave.filter((id) => now.has(id) && !come.includes(id));
          const changed = come.filter((id) => !isReplacing || now.has(id)).map((id) => one(id, value));
          const plain = new Map(now);
          for (const id of gone) plain.delete(id);
          for (const each of changed) plain.set(each.id, each);
          now = changedMap(now, { removed: gone, changed });
          states.push(now);
          const wanted = [...plain].sort(([a], [b]) => (a < b ? -1 : 1));
          assert.deepEqual([...now], wanted);
          assert.deepEqual([...now.entries()], wanted);
          assert.deepEqual(
            [...now.keys()],
            wanted.map(([id]) => id),
          );
          assert.deepEqual(
            [...now.values()],
            wanted.map(([, each]) => each),
          );
          assert.equal(now.size, plain.size);
          for (const id of 'abcdefghijklmnopqrst') {
            assert.deepEqual([now.has(id), now.get(id)], [plain.has(id), plain.get(id)]);
          }
          const each: unknown[] = [];
          now.forEach((other, id) => void each.push([id, other]));
          assert.deepEqual(each, wanted);
        }
        for (const a of states) {
          for (const b of states) {
            const all = [...new Set([...a.keys(), ...b.keys()])];
            const wanted = all.filter((id) => a.get(id) !== b.get(id)).sort();
            assert.deepEqual([...changedIds(a, b)].sort(), wanted);
          }
        }
      }),
      { numRuns: 300 },
    );
  });

  it('costs in proportion to few changes', () => {
    const all = Array.from({ length: 1000 }, (_, i) => one(`${1000 + i}`));
    let now = changedMap(new Map<string, { id: string; value: number }>(), { removed: [], changed: all });
    const first = now;
    for (let i = 0; i < 300; i++) now = changedMap(now, { removed: [], changed: [one(`${1000 + i}`, 1)] });
    assert.ok(now instanceof Map === false);
    assert.equal([...now.values()].filter(({ value }) => value === 1).length, 300);
    assert.equal([...first.values()].filter(({ value }) => value === 1).length, 0);
  });
});
