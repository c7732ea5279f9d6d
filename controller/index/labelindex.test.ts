import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { LabelSelector, Labels } from '../../apis/objects.ts';
import { labelIndex } from './labelindex.ts';
import { canonicalRequirements, holds } from './selector.ts';

const KEY = fc.constantFrom('a', 'b', 'constructor');
const VALUE = fc.constantFrom('', '1', '2');
const LABELS: fc.Arbitrary<Labels> = fc.dictionary(KEY, VALUE);
const VALUES = fc.array(VALUE, { minLength: 1, maxLength: 2 });
const SELECTOR: fc.Arbitrary<LabelSelector> = fc.record({
  matchLabels: LABELS,
  matchExpressions: fc.array(
    fc.oneof(
      fc.record({ key: KEY, operator: fc.constantFrom('In', 'NotIn'), values: VALUES }),
      fc.record({ key: KEY, operator: fc.constantFrom('Exists', 'DoesNotExist') }),
    ),
    { maxLength: 2 },
  ),
}) as fc.Arbitrary<LabelSelector>;

describe('labelindex', () => {
  it('selects what a look at every item selects, in the order given', () => {
    fc.assert(
      fc.property(
        fc.array(LABELS, { maxLength: 12 }),
        fc.array(SELECTOR, { maxLength: 6 }),
        (all, selectors) => {
          const items = all.map((labels) => ({ labels }));
          const index = labelIndex(items);
          for (const selector of selectors) {
            const wanted = items.filter(({ labels }) =>
              canonicalRequirements(selector).every((requirement) => holds(requirement, labels)),
            );
            assert.deepEqual(index.select(selector), wanted);
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  it('has one answer for equal selectors', () => {
    const index = labelIndex([{ labels: { a: '1' } }]);
    const written = { matchExpressions: [{ key: 'a', operator: 'In', values: ['1'] }] } as const;
    assert.equal(index.select({ matchLabels: { a: '1' } }), index.select(written));
  });
});
