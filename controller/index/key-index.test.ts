import assert from 'node:assert/strict';
import { keyIndex } from './key-index.ts';

describe('keyIndex', () => {
  const [one, two, three] = ['x', 'x y', 'y'].map((keys) => ({ keys: keys.split(' ') }));
  assert.ok(one !== undefined && two !== undefined && three !== undefined);

  it('returns the objects of a key after additions and removals', () => {
    const index = keyIndex([one, two], ({ keys }) => keys);
    const of = (key: string) => [...index.get(key)];
    assert.deepEqual([of('x'), of('y'), of('z')], [[one, two], [two], []]);
    index.change({ removed: [one], added: [three] });
    assert.deepEqual([of('x'), of('y'), [...index.keys()]], [[two], [two, three], ['x', 'y']]);
    index.change({ removed: [two, one], added: [] });
    assert.deepEqual([of('x'), of('y'), index.has('x'), index.has('y')], [[], [three], false, true]);
  });

  it('returns many objects of a key in insertion order, each once', () => {
    const all = Array.from({ length: 30 }, () => ({ keys: ['x'] }));
    const index = keyIndex([...all, ...all], ({ keys }) => keys);
    assert.deepEqual([...index.get('x')], all);
    for (const [i, removed] of all.entries()) {
      index.change({ removed: [removed, removed], added: [] });
      assert.deepEqual([...index.get('x')], all.slice(i + 1));
      assert.equal(index.has('x'), i < all.length - 1);
    }
  });

  it('stores an object once under a key that it has twice', () => {
    const twice = { keys: ['x', 'x'] };
    const index = keyIndex([twice], ({ keys }) => keys);
    assert.deepEqual([...index.get('x')], [twice]);
    index.change({ removed: [twice], added: [] });
    assert.equal(index.has('x'), false);
  });
});
