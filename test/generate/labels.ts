import fc from 'fast-check';
import type { LabelSelector, Labels } from '../../apis/objects.ts';

const KEY = fc.constantFrom('a', 'b', 'constructor');
const VALUE = fc.constantFrom('', '1', '2');
const VALUES = fc.array(VALUE, { minLength: 1, maxLength: 2 });

/**
 * Few labels, so that selectors meet them often; with keys that every JavaScript object seems to
 * have.
 */
export const CLOSE_LABELS: fc.Arbitrary<Labels> = fc.dictionary(KEY, VALUE);

/** Any selector of these labels. */
export const CLOSE_SELECTOR: fc.Arbitrary<LabelSelector> = fc.record({
  matchLabels: CLOSE_LABELS,
  matchExpressions: fc.array(
    fc.oneof(
      fc.record({ key: KEY, operator: fc.constantFrom('In', 'NotIn'), values: VALUES }),
      fc.record({ key: KEY, operator: fc.constantFrom('Exists', 'DoesNotExist') }),
    ),
    { maxLength: 2 },
  ),
}) as fc.Arbitrary<LabelSelector>;
