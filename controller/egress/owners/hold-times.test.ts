import assert from 'node:assert/strict';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { HoldTimes } from './hold-times.ts';

const RECORD = { address: '203.0.113.1', policy: 'shop/p' };

describe('the hold times of released addresses', () => {
  let date: number;
  const clock = { ...fakeClock(), date: () => new Date(date) };
  beforeEach(() => {
    date = Date.parse('2026-01-01T00:00:00Z');
  });

  it('begin when an address is first seen to be released, and count by the monotonic clock', () => {
    const times = new HoldTimes(clock);
    const held = { heldUntil: '2026-01-01T00:05:00Z', left: 300_000 };
    assert.deepEqual(times.of('g', RECORD, 'held'), held);
    clock.pass(1000);
    date += 86_400_000;
    times.begin();
    assert.deepEqual(times.of('g', RECORD, 'held'), { ...held, left: 299_000 });
    assert.equal(times.next, 299_000);
    assert.equal(times.of('g', { ...RECORD, heldUntil: held.heldUntil }, 'cut').left, 10_000);
  });

  it('begin again when the address was in use meanwhile', () => {
    const times = new HoldTimes(clock);
    times.of('g', RECORD, 'held');
    clock.pass(1000);
    times.begin();
    assert.equal(times.next, null);
    times.begin();
    assert.equal(times.of('g', RECORD, 'held').left, 300_000);
  });

  it('are those of the status for a leader that leads again', () => {
    const times = new HoldTimes(clock);
    times.of('g', RECORD, 'held');
    clock.pass(200_000);
    times.clear();
    assert.equal(times.of('g', RECORD, 'held').left, 300_000);
  });

  it('go on under another leader, and never get longer', () => {
    const of = (heldUntil: string) => new HoldTimes(clock).of('g', { ...RECORD, heldUntil }, 'held').left;
    assert.equal(of('2026-01-01T00:01:00Z'), 60_000);
    assert.equal(of('2026-02-01T00:01:00Z'), 300_000);
    assert.equal(of('2025-02-01T00:01:00Z') <= 0, true);
    assert.equal(of('soon'), 300_000);
  });
});
