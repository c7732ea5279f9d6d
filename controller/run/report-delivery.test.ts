import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { NodeReport } from '../../apis/stream.ts';
import { REPORT } from '../../test/fake/server-bed.ts';
import { ReportDelivery } from './report-delivery.ts';

describe('ReportDelivery', () => {
  function make(hasEgress: boolean) {
    const calls: string[] = [];
    const note = (name: string) => (report: NodeReport) => {
      calls.push(`${name} ${report.node}`);
    };
    const [learned, used] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const useReports = (): Promise<void> => {
      calls.push('asked');
      return used.promise;
    };
    const delivery = new ReportDelivery({
      now: () => 10_000,
      hasEgress,
      compiling: { receiveReport: note('compiling'), useReports },
      statuses: {
        keeper: { report: note('status') },
        rollouts: { reported: () => {} },
        reportEgress: note('egress'),
        nodeEvents: { receive: note('event') },
      } as unknown as ConstructorParameters<typeof ReportDelivery>[0]['statuses'],
      metrics: { reported: () => calls.push('counted') },
      nodeMetrics: { receive: note('metrics') },
      console: () => ({ receive: note('console') }),
      peers: () => ({ learn: () => learned.promise, pass: note('passed') }),
    });
    return { delivery, learned, used, calls };
  }
  const to = (node: string, ...names: string[]) => names.map((name) => `${name} ${node}`);

  it('passes on what an agent sends, and not what another controller does', () => {
    const { delivery, calls } = make(false);
    delivery.arrived(REPORT, 'agent');
    assert.deepEqual(calls.splice(0), ['counted', ...to('cp-1', 'passed', 'status', 'compiling')]);
    delivery.arrived(REPORT, 'controller');
    assert.deepEqual(calls, to('cp-1', 'status', 'compiling'));
  });

  it('takes of those that another controller had only what is newer', () => {
    const { delivery, calls } = make(true);
    assert.equal(delivery.reports.receive({ report: REPORT, age: 1_000 }), true);
    calls.splice(0);
    const reports = [
      { report: REPORT, age: 2_000 },
      { report: { ...REPORT, node: 'cp-2' }, age: 2_000 },
    ];
    delivery.learned(reports);
    assert.deepEqual(calls, to('cp-2', 'metrics', 'event', 'console', 'status', 'egress', 'compiling'));
  });

  it('is not complete before the others were asked, and addresses are used by then', async () => {
    const { delivery, learned, used, calls } = make(false);
    delivery.learn();
    assert.match(delivery.missing() ?? '', /are not here yet/);
    learned.resolve();
    await learned.promise;
    assert.deepEqual(calls, ['asked']);
    assert.match(delivery.missing() ?? '', /are not here yet/);
    used.resolve();
    await nextTurn();
    assert.equal(delivery.missing(), null);
  });
});
