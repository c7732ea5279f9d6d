import assert from 'node:assert/strict';
import fc from 'fast-check';
import { check } from '../../test/properties/runs.ts';
import { NamedList } from './incremental-list.ts';

const lists = fc.uniqueArray(fc.integer({ min: 0, max: 600 }), { maxLength: 500 });

interface Thing {
  readonly name: string;
  readonly by: number;
}

describe('NamedList', () => {
  it('property: equals the Map of its elements, for any lists it was made from', function () {
    check(this, 100, fc.array(lists, { minLength: 1, maxLength: 6 }), (drawn) => {
      let last = new NamedList<Thing>([]);
      for (const [by, numbers] of drawn.entries()) {
        // Items with even numbers are those of the previous list.
        const items = numbers.map(
          (n): Thing => (n % 2 === 0 ? last.get(`n${n}`) : undefined) ?? { name: `n${n}`, by },
        );
        const list = new NamedList(items, last);
        const map = new Map(items.map((item) => [item.name, item]));
        assert.equal(list.size, map.size);
        assert.deepEqual([...list], [...map]);
        assert.deepEqual([...list.keys()], [...map.keys()]);
        assert.deepEqual([...list.values()], [...map.values()]);
        for (let n = 0; n <= 600; n++) {
          assert.equal(list.get(`n${n}`), map.get(`n${n}`));
          assert.equal(list.has(`n${n}`), map.has(`n${n}`));
        }
        const seen: unknown[] = [];
        list.forEach((item, name) => void seen.push([name, item]));
        assert.deepEqual(seen, [...map]);
        last = list;
      }
    });
  });

  it('works over many small changes', () => {
    let items = Array.from({ length: 2000 }, (_, i) => ({ name: `n${i}` }));
    let list = new NamedList(items);
    for (let i = 0; i < 1000; i++) {
      items = items.toSpliced((i * 37) % items.length, 1, { name: `new${i}` });
      list = new NamedList(items, list);
      assert.equal(list.get(`new${i}`), items[(i * 37) % items.length]);
    }
    for (const item of items) assert.equal(list.get(item.name), item);
    assert.equal(list.has('n0'), false);
    assert.deepEqual([...list.values()], items);
  });
});
