import assert from 'node:assert/strict';
import type { LabelSelector, LabelSelectorRequirement } from '../../apis/objects.ts';
import { canonicalRequirements, formatRequirements, holds } from './selector.ts';

const formatSelector = (selector: LabelSelector): string =>
  formatRequirements(canonicalRequirements(selector));

describe('selector', () => {
  it('has one canonical form for equal selectors', () => {
    const same: readonly LabelSelector[] = [
      { matchLabels: { b: '2', a: '1' } },
      { matchLabels: { a: '1' }, matchExpressions: [{ key: 'b', operator: 'In', values: ['2'] }] },
      {
        matchExpressions: [
          { key: 'b', operator: 'In', values: ['2', '2'] },
          { key: 'a', operator: 'In', values: ['1'] },
          { key: 'a', operator: 'In', values: ['1'] },
        ],
      },
    ];
    for (const selector of same) assert.equal(formatSelector(selector), 'a=1,b=2');
  });

  it('is formatted as in kubectl', () => {
    const matchExpressions: LabelSelectorRequirement[] = [
      { key: 'a', operator: 'In', values: ['2', '1'] },
      { key: 'b', operator: 'NotIn', values: ['x'] },
      { key: 'c', operator: 'NotIn', values: ['y', 'x'] },
      { key: 'd', operator: 'Exists' },
      { key: 'e', operator: 'DoesNotExist' },
    ];
    assert.equal(formatSelector({ matchExpressions }), '!e,a in (1,2),b!=x,c notin (x,y),d');
    assert.equal(formatSelector({}), '{}');
    assert.equal(formatSelector({ matchLabels: {}, matchExpressions: [] }), '{}');
  });

  /** For each operator: labels {k: v}, {k: other}, {}. */
  const TABLE: readonly [LabelSelectorRequirement, boolean, boolean, boolean][] = [
    [{ key: 'k', operator: 'In', values: ['v'] }, true, false, false],
    [{ key: 'k', operator: 'NotIn', values: ['v'] }, false, true, true],
    [{ key: 'k', operator: 'Exists' }, true, true, false],
    [{ key: 'k', operator: 'DoesNotExist' }, false, false, true],
  ];
  for (const [requirement, value, other, absent] of TABLE) {
    it(`holds: ${requirement.operator}`, () => {
      assert.equal(holds(requirement, { k: 'v' }), value);
      assert.equal(holds(requirement, { k: 'other' }), other);
      assert.equal(holds(requirement, {}), absent);
    });
  }

  it('ignores inherited properties of label objects', () => {
    assert.equal(holds({ key: 'constructor', operator: 'Exists' }, {}), false);
    assert.equal(holds({ key: 'toString', operator: 'DoesNotExist' }, {}), true);
  });

  it('distinguishes an empty value from a missing label', () => {
    assert.equal(holds({ key: 'k', operator: 'In', values: [''] }, { k: '' }), true);
    assert.equal(holds({ key: 'k', operator: 'In', values: [''] }, {}), false);
  });
});
