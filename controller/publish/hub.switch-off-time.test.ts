import assert from 'node:assert/strict';
import { usualSwitchOff } from './hub.ts';

describe('usualSwitchOff', () => {
  it('is five seconds for each node after the first, and five minutes at most', () => {
    assert.deepEqual([0, 1, 2, 3, 61, 62, 5_000].map(usualSwitchOff), [0, 0, 5, 10, 300, 300, 300]);
  });
});
