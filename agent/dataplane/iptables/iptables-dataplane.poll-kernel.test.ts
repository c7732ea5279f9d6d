import assert from 'node:assert/strict';
import { pollInterval } from './iptables-dataplane.ts';

describe('the comparison with iptables', () => {
  it('runs every 3 s, less often if it is slow, at least every minute', () => {
    assert.deepEqual([0, 5, 30, 60, 300, 10_000].map(pollInterval), [3000, 3000, 3000, 6000, 30_000, 60_000]);
  });
});
