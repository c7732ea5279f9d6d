import assert from 'node:assert/strict';
import { useCount } from './use-count.ts';

const named = (...ids: string[]) => new Map(ids.map((id) => [id, id.toUpperCase()]));

describe('useCount', () => {
  it('holds a thing until its last user is removed', () => {
    const count = useCount<string>();
    assert.equal(count.change([], [named('a', 'b'), named('b')]), true);
    assert.equal(count.change([named('a', 'b')], [named('a')]), false);
    assert.deepEqual([...count.inUse], [...named('a', 'b')]);
    assert.equal(count.change([named('b')], []), true);
    assert.equal(count.change([named('a')], [named('c')]), true, 'as many, but others');
    assert.deepEqual([...count.inUse], [...named('c')]);
  });

  it('returns added and removed things', () => {
    const count = useCount<string>();
    assert.deepEqual(count.exchange([], [named('a', 'b')]), { added: ['A', 'B'], removed: [] });
    assert.deepEqual(count.exchange([named('a', 'b')], [named('b', 'c')]), { added: ['C'], removed: ['A'] });
    assert.deepEqual(count.exchange([], [named('c')]), { added: [], removed: [] });
    assert.deepEqual(count.exchange([], []), { added: [], removed: [] });
  });
});
