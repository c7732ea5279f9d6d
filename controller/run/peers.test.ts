import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { REPORT } from '../../test/fake/server-bed.ts';
import { ReportDelivery } from './peers.ts';

describe('ReportDelivery', () => {
  function make() {
    const calls: string[] = [];
    const [learned, used] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const useReports = (): Promise<void> => {
      calls.push('asked');
      return used.promise;
    };
    const delivery = new ReportDelivery({
      compiling: { useReports },
      reported: () => void calls.push('counted'),
      peers: { learn: () => learned.promise, pass: ({ node }) => void calls.push(`passed ${node}`) },
    });
    return { delivery, learned, used, calls };
  }

  it('passes on what an agent sends, and not what another controller does', () => {
    const { delivery, calls } = make();
    delivery.arrived(REPORT, 'agent');
    assert.deepEqual(calls, ['counted', 'passed cp-1']);
    delivery.arrived(REPORT, 'controller');
    assert.deepEqual(calls, ['counted', 'passed cp-1']);
  });

  it('is not complete before the others were asked, and addresses are used by then', async () => {
    const { delivery, learned, used, calls } = make();
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
