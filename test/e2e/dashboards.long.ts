/** The dashboards at a real Prometheus: every panel has data. */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { DASHBOARDS } from '../../build/manifests/monitoring/dashboards.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { until } from '../kernel/until.ts';
import { type AlertsBed, startPrometheus } from './alerts-bed.ts';
import { closed, type Story, startStory } from './story-bed.ts';

const NODE = 'worker-1';
/** What Grafana puts into a query. */
const VARIABLES = { __rate_interval: '90s', node: NODE, policy: 'closed' };

kernelSuite('dashboards at a real Prometheus', function () {
  this.timeout(300_000);
  let story: Story;
  let bed: AlertsBed;
  before(async function () {
    this.timeout(1_800_000);
    story = await startStory({ replicas: 2 });
    for (const agent of Object.values(story.agents)) {
      await agent.end('SIGTERM');
      agent.start('--metrics-listen', '127.0.0.1:9412');
    }
    await story.applied(closed('closed', 80));
    bed = await startPrometheus(story, { default: { ranges: 1, offsets: 1 } });
    // What is compiled and applied while Prometheus looks.
    await until('it has looked', async () => (await bed.prometheus.query('nodewall_agent_rules')).length > 0);
    await story.applied(closed('more', 8080));
    await story.withoutLeaks(NODE, 80, () => pause(5_000));
  });
  after(async () => {
    await bed?.close();
    await story?.close();
  });

  for (const { name, rows } of DASHBOARDS) {
    for (const { title, queries } of rows.flatMap(({ panels }) => panels)) {
      it(`${name}: ${title} has data`, async () => {
        for (const { expr } of queries) {
          const query = expr.replaceAll(/\$(\w+)/g, (_, variable: keyof typeof VARIABLES) => {
            return VARIABLES[variable] ?? assert.fail(variable);
          });
          let last = '';
          await until(
            query,
            async () => {
              const samples = await bed.prometheus.query(query);
              last = JSON.stringify(samples);
              return samples.some(({ value }) => !Number.isNaN(value));
            },
            { limit: 120_000, detail: () => last },
          );
        }
      });
    }
  }
});
