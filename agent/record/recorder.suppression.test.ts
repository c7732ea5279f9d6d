import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { RuleTotals } from './accounting.ts';
import { suppression } from './recorder.ts';

function totals(logged: number, recorded: number): Map<string, RuleTotals> {
  return new Map([['r', { packets: logged, bytes: 0, lastHit: null, logged, recorded }]]);
}

describe('suppression', () => {
  it('reports suppressed records once a second reading confirms them', () => {
    const found = suppression();
    found.read(totals(100, 30), 0);
    assert.equal(found.consume('r'), 0);
    assert(!found.isSettled());
    found.read(totals(100, 30), 1);
    assert.equal(found.consume('r'), 70);
    assert.equal(found.consume('r'), 0);
    found.read(totals(100, 30), 2);
    assert(found.isSettled());
  });

  it('continues from an earlier run', () => {
    const found = suppression();
    found.begin(totals(100, 30));
    found.read(totals(110, 35), 0);
    found.read(totals(110, 35), 1);
    assert.equal(found.consume('r'), 5);
  });

  it('returns losses that wait for too long, and forgets removed rules', () => {
    const found = suppression();
    found.read(totals(10, 0), 0);
    found.read(totals(20, 0), 5);
    assert.deepEqual(found.consumeSince(4), []);
    assert.deepEqual(found.consumeSince(5), [['r', 10]]);
    found.read(new Map(), 6);
    found.read(new Map(), 7);
    assert(found.isSettled());
  });

  it('never reports too many losses, and all of them in the end', () => {
    const step = fc.record({
      matched: fc.nat(50),
      recorded: fc.nat(50),
      /** Packets that match and are recorded between the readings of the two chains. */
      between: fc.nat(5),
      recordFirst: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const found = suppression();
        let [matched, recorded, told] = [0, 0, 0];
        for (const [i, one] of steps.entries()) {
          matched += one.matched;
          recorded += Math.min(one.recorded, one.matched);
          const before = { matched, recorded };
          matched += one.between;
          recorded += one.between;
          found.read(
            one.recordFirst ? totals(matched, before.recorded) : totals(before.matched, recorded),
            i,
          );
          told += found.consume('r');
          assert(told <= matched - recorded, `${told} of ${matched - recorded}`);
        }
        for (const i of [0, 1]) found.read(totals(matched, recorded), steps.length + i);
        told += found.consume('r');
        assert.equal(told, matched - recorded);
      }),
    );
  });
});
