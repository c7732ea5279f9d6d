import assert from 'node:assert/strict';
import fc from 'fast-check';
import { CLOSE_LABELS, CLOSE_SELECTOR } from '../../test/generate/labels.ts';
import { allHold, canonicalRequirements, selectorIndex } from './selector.ts';

describe('selectorIndex', () => {
  it('finds the same selectors as a full scan, after any changes', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(CLOSE_SELECTOR, fc.boolean()), { maxLength: 24 }),
        fc.array(CLOSE_LABELS, { maxLength: 6 }),
        (selectors, labels) => {
          const index = selectorIndex<number>();
          const all = selectors.map(([selector, stays], i) => {
            const requirements = canonicalRequirements(selector);
            return { requirements, stays, takeOut: index.add(requirements, i) };
          });
          for (const { stays, takeOut } of all) if (!stays) takeOut();
          assert.equal(index.size, all.filter(({ stays }) => stays).length);
          for (const one of labels) {
            const wanted = all.flatMap(({ requirements, stays }, i) =>
              stays && allHold(requirements, one) ? i : [],
            );
            assert.deepEqual(
              index.matching(one).sort((a, b) => a - b),
              wanted,
            );
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  it('is empty when all selectors are removed', () => {
    const index = selectorIndex<number>();
    const takeOut = Array.from({ length: 20 }, (_, i) =>
      index.add([{ key: `k${i}`, operator: 'In', values: ['1'] }], i),
    );
    assert.deepEqual(index.matching({ k3: '1', k4: '2' }), [3]);
    for (const out of takeOut) out();
    assert.deepEqual([index.size, index.matching({ k3: '1' })], [0, []]);
  });

  it('removes a selector once', () => {
    const index = selectorIndex<string>();
    const takeOut = index.add([{ key: 'a', operator: 'Exists' }], 'first');
    index.add([{ key: 'a', operator: 'Exists' }], 'second');
    takeOut();
    takeOut();
    assert.equal(index.size, 1);
    assert.deepEqual(index.matching({ a: '' }), ['second']);
  });
});
