import assert from 'node:assert/strict';
import type { FailingRule, NodeReport } from '../../apis/node-report.ts';
import { ReportDamper } from './tracked-version.ts';

const FAILING: FailingRule = {
  apiGroup: 'nodewall.io',
  policy: 'p',
  generation: 1,
  rule: 'r',
  reason: 'refused',
};

function report(number: number, failing: boolean, node = 'a'): NodeReport {
  return {
    node,
    revision: `x.${number}`,
    enforced: `x.${number}`,
    enabled: true,
    failing: failing ? [FAILING] : [],
    policies: 1,
    hostAddresses: [],
    version: '',
    dataplane: 'nftables',
    time: '',
  };
}

describe('ReportDamper', () => {
  let time: number;
  let damper: ReportDamper;
  beforeEach(() => {
    time = 0;
    damper = new ReportDamper(() => time);
  });

  /** Uses up the burst of node a; returns the number of the last report. */
  function exhaust(): number {
    let number = 0;
    while (damper.isDue(report(number, number % 2 === 1))) number++;
    return number;
  }

  it('uses ten changes at once, then one in ten seconds, the last one', () => {
    const number = exhaust();
    assert.equal(number, 11, 'the first report is no change');
    assert.equal(damper.isDue(report(number + 1, number % 2 === 1)), false);
    assert.deepEqual(damper.due(), []);
    time += 10_000;
    assert.deepEqual(damper.due(), [report(number + 1, number % 2 === 1)]);
    assert.deepEqual(damper.due(), []);
    time += 100_000;
    assert.deepEqual(damper.due(), [], 'each is used once');
  });

  it('counts neither later revisions nor other nodes', () => {
    const number = exhaust();
    const last = number - 1;
    const isFailing = last % 2 === 1;
    for (let i = 0; i < 50; i++) assert.ok(damper.isDue(report(number + i, isFailing)));
    assert.deepEqual(damper.due(), [], 'a later report replaces the one that was held');
    assert.ok(!damper.isDue(report(0, isFailing)), 'an earlier revision');
    assert.ok(damper.isDue(report(0, true, 'b')));
    assert.ok(damper.isDue(report(0, false, 'b')));
  });

  it('holds nothing of Nodes that are deleted', () => {
    exhaust();
    damper.forgetOthers(new Map([['b', null]]));
    time += 10_000;
    assert.deepEqual(damper.due(), []);
  });
});
