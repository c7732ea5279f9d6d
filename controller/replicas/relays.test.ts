import assert from 'node:assert/strict';
import type { NodeReport } from '../../apis/node-report.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { NodeReports } from '../publish/node-reports.ts';
import { ReportRelay } from './relays.ts';

describe('ReportRelay', () => {
  const settled = () => new Promise(setImmediate);

  function relay() {
    const clock = fakeClock();
    const reports = new NodeReports(clock.now);
    const sent: string[] = [];
    const failing: string[] = [];
    const refused = new Set<string>();
    const one = new ReportRelay({
      async send(peer, batch) {
        if (refused.has(peer)) throw new Error('no route');
        sent.push(`${peer}: ${batch.reports.map(({ report, age }) => `${report.node}@${age}`).join(' ')}`);
      },
      reports,
      clock,
      random: () => 1,
      failing: (peer, error) => void failing.push(`${peer}: ${error?.message ?? 'again'}`),
    });
    return {
      one,
      refused,
      failing,
      report(node: string): void {
        const report = { node } as NodeReport;
        reports.receive({ report, age: 0 });
        one.pass(report);
      },
      /** The reports that were sent since the last call. */
      async after(milliseconds: number): Promise<string[]> {
        await settled();
        clock.pass(milliseconds);
        await settled();
        return sent.splice(0);
      },
    };
  }

  it('passes on all reports to a controller that appears, then each as it comes, gathered', async () => {
    const { one, report, after } = relay();
    report('a');
    one.setPeers(['x']);
    assert.deepEqual(await after(0), ['x: a@0']);
    report('b');
    report('a');
    report('b');
    assert.deepEqual(await after(99), []);
    assert.deepEqual(await after(1), ['x: b@100 a@100']);
    one.setPeers(['x', 'y']);
    assert.deepEqual(await after(0), ['y: a@100 b@100']);
    one.setPeers(['y']);
    report('c');
    assert.deepEqual(await after(100), ['y: c@100']);
    one.close();
    report('d');
    assert.deepEqual(await after(1000), []);
  });

  it('keeps what a controller does not take, and tries again, ever later', async () => {
    const { one, refused, failing, report, after } = relay();
    one.setPeers(['x', 'y']);
    refused.add('x');
    report('a');
    assert.deepEqual(await after(100), ['y: a@100']);
    report('b');
    assert.deepEqual(await after(100), ['y: b@100']);
    assert.deepEqual(await after(150), []);
    refused.delete('x');
    assert.deepEqual(await after(500), ['x: a@850 b@750']);
    assert.deepEqual(failing, ['x: no route', 'x: again']);
  });

  it('waits before it tries again, also where more came while the first try hung', async () => {
    const clock = fakeClock();
    const reports = new NodeReports(clock.now);
    const tries: number[] = [];
    let fail = (_: Error): void => {};
    const one = new ReportRelay({
      send() {
        tries.push(clock.now());
        return new Promise((_, reject) => {
          fail = reject;
        });
      },
      reports,
      clock,
      random: () => 1,
      failing() {},
    });
    const receive = (node: string): NodeReport => {
      const report = { node } as NodeReport;
      reports.receive({ report, age: 0 });
      return report;
    };
    receive('a');
    one.setPeers(['x']);
    clock.pass(0);
    await settled();
    one.pass(receive('b'));
    clock.pass(1_000);
    fail(new Error('no answer in time'));
    await settled();
    clock.pass(200);
    await settled();
    assert.deepEqual(tries, [0]);
    clock.pass(100);
    await settled();
    assert.equal(tries.length, 2);
    fail(new Error('no answer in time'));
    await settled();
    assert.notDeepEqual(clock.waiting(), []);
    one.close();
    assert.deepEqual(clock.waiting(), [], 'keeps the process alive');
  });
});
