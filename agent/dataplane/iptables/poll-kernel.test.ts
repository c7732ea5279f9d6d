import assert from 'node:assert/strict';
import { waitAfter } from './poll-kernel.ts';

describe('the comparison with iptables', () => {
  it('comes every 3 s, later where it is dear, and every minute at the latest', () => {
    assert.deepEqual([0, 5, 30, 60, 300, 10_000].map(waitAfter), [3000, 3000, 3000, 6000, 30_000, 60_000]);
  });
});
