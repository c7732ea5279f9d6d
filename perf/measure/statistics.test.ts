import assert from 'node:assert/strict';
import { median, quantile, summarise } from './statistics.ts';

describe('statistics', () => {
  it('medians and quantiles are linear between neighbours, whatever the order', () => {
    assert.equal(median([3, 1, 2]), 2);
    assert.equal(median([4, 1, 3, 2]), 2.5);
    assert.equal(quantile([10, 0], 0.25), 2.5);
    assert.equal(quantile([5], 0.99), 5);
  });

  it('numbers are ordered as numbers', () => assert.equal(median([100, 9, 20]), 20));

  it('nothing has no median', () => assert.ok(Number.isNaN(median([]))));

  it('a summary', () => assert.deepEqual(summarise([2, 9, 4]), { median: 4, min: 2, max: 9, trials: 3 }));
});
