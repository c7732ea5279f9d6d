import assert from 'node:assert/strict';
import { ageText, countText, namesText, rateText } from './texts.ts';

describe('texts', () => {
  it('have the largest unit of an age', () => {
    const now = Date.parse('2026-11-27T12:00:00Z');
    const ages = [
      ['2026-11-27T12:00:01Z', '0 s'],
      ['2026-11-27T11:59:01Z', '59 s'],
      ['2026-11-27T11:59:00Z', '1 min'],
      ['2026-11-27T11:00:01Z', '59 min'],
      ['2026-11-26T12:00:01Z', '23 h'],
      ['2026-10-18T12:00:00Z', '40 d'],
    ] as const;
    for (const [time, text] of ages) assert.equal(ageText(time, now), text, time);
    assert.equal(ageText('no time', now), 'no time');
  });

  it('count', () => {
    assert.deepEqual(
      [0, 1, 12_345].map((n) => countText(n, 'node')),
      ['0 nodes', '1 node', '12,345 nodes'],
    );
    assert.deepEqual([0, 0.01, 0.25, 1234].map(rateText), ['0', '< 0.1', '0.3', '1,234']);
    assert.equal(namesText(['a', 'b', 'c', 'd'], 500), 'a, b, c and 497 more');
    assert.equal(namesText(['a']), 'a');
  });
});
