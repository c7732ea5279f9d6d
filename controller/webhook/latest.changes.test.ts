import assert from 'node:assert/strict';
import { changeSignal } from './latest.ts';

describe('changes', () => {
  it('wakes all waiting callers', async () => {
    const { wait, happened } = changeSignal();
    const woken = Promise.all([wait(1e9), wait(1e9)]);
    happened();
    await woken;
  });

  it('releases callers whose wait timed out', async () => {
    const all = changeSignal();
    await Promise.all(Array.from({ length: 100 }, () => all.wait(1)));
    assert.equal(all.waiting, 0);
  });
});
