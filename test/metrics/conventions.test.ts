import assert from 'node:assert/strict';
import { egressMetrics } from '../../agent/egress/egress-metrics.ts';
import { prometheusMetrics } from '../../agent/run/prometheus.ts';
import { controllerMetrics } from '../../controller/run/controller-metrics.ts';
import { watchCounts } from '../../controller/watch/cluster/watch-failures.ts';
import { checkConventions } from './promtool.ts';

describe("Prometheus' conventions", function () {
  this.timeout(120_000);

  it('hold for the metrics of an agent', async () => {
    const metrics = prometheusMetrics({ version: '1', isInCluster: true, ofRules: true });
    metrics.extend(egressMetrics);
    metrics.rolledBack('ssh');
    metrics.ended('nodewall.io/ssh', 1);
    await checkConventions(await metrics.registry.metrics());
  });

  it('hold for the metrics of a controller', async () => {
    const metrics = controllerMetrics(true);
    metrics.observe({
      isLeading: () => true,
      watches: () => [watchCounts('pods')],
      server: () => null,
      statusesWaiting: () => 0,
      certificateExpires: () => null,
      rollouts: () => new Map(),
      guardrails: () => ({ all: 0, broken: 0 }),
      lastDefinitions: () => 0,
      unsetGateNodes: () => 0,
      leases: () => ({ slots: 0, addresses: 0, nodesNotReady: 0 }),
    });
    await checkConventions(await metrics.registry.metrics());
  });

  it('are broken by a counter without _total, a duration in milliseconds, and an age', async () => {
    const page = (name: string, type: string) => `# HELP ${name} Words.\n# TYPE ${name} ${type}\n${name} 1\n`;
    await assert.rejects(checkConventions(page('nodewall_drops', 'counter')), /_total/);
    await assert.rejects(checkConventions(page('nodewall_apply_milliseconds', 'gauge')), /base unit/);
    await assert.rejects(checkConventions(page('nodewall_last_age_seconds', 'gauge')), /_age_/);
  });
});
