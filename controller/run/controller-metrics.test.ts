import assert from 'node:assert/strict';
import { seriesOf } from '../../test/metrics/promtool.ts';
import { watchCounts } from '../watch/cluster/watch-failures.ts';
import { controllerMetrics } from './controller-metrics.ts';

describe('metrics of a controller', () => {
  it('are the same series over 1,000 revisions', async () => {
    const metrics = controllerMetrics(false);
    metrics.observe({
      isLeading: () => true,
      watches: () => [watchCounts('pods')],
      server: () => null,
      statusesWaiting: () => 1,
      certificateExpires: () => null,
      rollouts: () => new Map(),
      guardrails: () => ({ all: 1, broken: 0 }),
      lastDefinitions: () => 0,
      unsetGateNodes: () => 0,
      leases: () => ({ slots: 0, addresses: 0, nodesNotReady: 0 }),
    });
    const before = seriesOf(await metrics.registry.metrics());
    for (let revision = 0; revision < 1_000; revision++) {
      metrics.compiled(0.01, {
        nodes: revision,
        policies: revision,
        invalid: 1,
        ignoredEndpoints: 0,
        ignoredAddresses: 0,
      });
      metrics.published(revision);
      metrics.reported();
      metrics.statusWritten();
    }
    assert.deepEqual(seriesOf(await metrics.registry.metrics()), before);
    assert.ok(before.length > 40, `${before.length}`);
  });
});
