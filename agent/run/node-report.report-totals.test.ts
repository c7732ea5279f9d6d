import assert from 'node:assert/strict';
import { MOST_RULE_TOTALS, type RuleTotal } from '../../apis/node-report.ts';
import { ingress, nodeState } from '../../test/fake/node-state.ts';
import type { Enforced } from '../apply/enforcer.ts';
import type { RuleTotals } from '../record/accounting.ts';
import { NO_METRICS } from './agent-metrics.ts';
import { ReportTotals } from './node-report.ts';

const PORT = [{ protocol: 'TCP', port: 23 }] as const;
const count = (packets: number): RuleTotals => {
  return { packets, bytes: 10 * packets, lastHit: null, logged: 0, recorded: 0 };
};
const state = nodeState(
  ingress(
    'p',
    { name: 'allow', action: 'Allow', ports: [...PORT] },
    { name: 'drop', action: 'Drop', ports: [...PORT] },
    { name: 'reject', action: 'Reject' },
  ),
);
const enforced = (of = state) => ({ resolved: of }) as Enforced;
const idOf = (name: string, of = state): string =>
  of.rules.find(({ source }) => source.rule === name)?.id ?? assert.fail();

describe('the counts of a report', () => {
  it('are those of the events', () => {
    const totals = new ReportTotals();
    const heard: string[] = [];
    const metrics = totals.over({ ...NO_METRICS, drifted: () => heard.push('drift') });
    metrics.drifted();
    metrics.rolledBack('ssh');
    metrics.recordsLost(3);
    metrics.otherRecordsLost(4);
    assert.deepEqual(totals.next(), {
      drifts: 1,
      rollbacks: 1,
      recordsLost: 7,
      denied: 0,
      failsafeRules: 0,
    });
    assert.deepEqual(heard, ['drift'], 'the metrics hear of it too');
  });

  it('have the rules that drop or reject and were hit, and what they denied since the start', () => {
    const totals = new ReportTotals();
    const metrics = totals.over(NO_METRICS);
    const counts = new Map([
      [idOf('allow'), count(7)],
      [idOf('drop'), count(50)],
    ]);
    metrics.enforced(enforced());
    metrics.counts(() => counts);
    const drop: RuleTotal = [idOf('drop'), 50, 500];
    const first = totals.next();
    assert.deepEqual([first.rules, first.denied, first.failsafeRules], [[drop], 0, 1]);
    counts.set(idOf('drop'), count(52)).set(idOf('reject'), count(5));
    const { rules, denied } = totals.next();
    assert.deepEqual(rules, [[idOf('drop'), 52, 520] as const, [idOf('reject'), 5, 50] as const].sort());
    assert.equal(denied, 7);
    counts.set(idOf('drop'), count(1));
    assert.equal(totals.next().denied, 8, 'the rule was removed and is back');
    metrics.counts(null);
    const off = totals.next();
    assert.deepEqual([off.rules, off.denied, off.failsafeRules], [undefined, 8, 0], 'nothing is enforced');
    metrics.enforced(enforced());
    metrics.counts(() => counts);
    assert.equal(totals.next().denied, 8);
  });

  it('say when there are more rules than a report may have', () => {
    const totals = new ReportTotals();
    const metrics = totals.over(NO_METRICS);
    const many = nodeState(
      ingress(
        'p',
        ...Array.from({ length: MOST_RULE_TOTALS + 1 }, (_, i) => ({
          name: `r${i}`,
          action: 'Drop' as const,
          ports: [{ protocol: 'TCP' as const, port: i + 1 }],
        })),
      ),
    );
    metrics.enforced(enforced(many));
    metrics.counts(() => new Map(many.rules.map(({ id }) => [id, count(1)])));
    const { rules, isCut } = totals.next();
    assert.deepEqual([rules?.length, isCut], [MOST_RULE_TOTALS, true]);
  });
});
