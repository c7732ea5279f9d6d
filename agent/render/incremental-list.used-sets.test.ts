import assert from 'node:assert/strict';
import fc from 'fast-check';
import { check } from '../../test/properties/runs.ts';
import { UsedSets } from './incremental-list.ts';
import type { NamedSet } from './ruleset.ts';

function set(name: string, ...bytes: number[]): NamedSet {
  const members = { singles: Uint8Array.from(bytes), prefixes: [] };
  return { name, family: 4, key: 'address', interval: false, members, comment: `of ${name}` };
}

describe('UsedSets', () => {
  it('has each set once, by name, while a rule refers to it', () => {
    const used = new UsedSets();
    const [a, b] = [set('a'), set('b')];
    used.change([b, a, b], []);
    assert.deepEqual([...used.sets().values()], [a, b]);
    used.change([], [b]);
    assert.deepEqual([...used.sets().keys()], ['a', 'b']);
    used.change([], [b]);
    assert.deepEqual([...used.sets().keys()], ['a']);
  });

  it('is the same map until a change, and replaces a set whose members changed', () => {
    const used = new UsedSets();
    used.change([set('a', 1, 2, 3, 4), set('b')], []);
    const before = used.sets();
    assert.equal(used.sets(), before);
    const next = set('a', 1, 2, 3, 5);
    used.change([next], [next]);
    assert.equal(used.sets().get('a'), next);
    assert.equal(used.sets().get('b'), before.get('b'));
    assert.notEqual(used.sets(), before);
  });

  it('has no comments for many sets, and reuses unchanged sets', () => {
    const used = new UsedSets();
    const many = Array.from({ length: 2001 }, (_, i) => set(`s${i}`));
    used.change(many, []);
    const before = used.sets();
    assert.ok([...before.values()].every(({ comment }) => comment === null));
    used.change([set('t')], []);
    assert.equal(used.sets().get('s7'), before.get('s7'));
    used.change([], [...many.slice(0, 500), set('t')]);
    assert.ok([...used.sets().values()].every(({ comment }) => comment !== null));
  });

  it('throws on the removal of an unused set', () => {
    assert.throws(() => new UsedSets().change([], [set('a')]), /a is not in use/);
  });

  it('property: equals a count over all rules', function () {
    const steps = fc.array(fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 5 }), { maxLength: 8 });
    check(this, 200, steps, (lists) => {
      const used = new UsedSets();
      let before: NamedSet[] = [];
      for (const names of lists) {
        const now = names.map((name) => set(name));
        used.change(now, before);
        before = now;
        assert.deepEqual([...used.sets().keys()], [...new Set(names)].sort());
      }
    });
  });
});
