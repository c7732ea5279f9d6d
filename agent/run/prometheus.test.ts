import assert from 'node:assert/strict';
import { emptyNodeState } from '../../apis/compiled.ts';
import { seriesOf, valuesOf } from '../../test/metrics/promtool.ts';
import type { Enforced } from '../apply/enforcer.ts';
import { egressMetrics } from '../egress/egress-metrics.ts';
import { prometheusMetrics } from './prometheus.ts';

const ENFORCED = {
  resolved: emptyNodeState('a'),
  failed: new Map(),
  enforcedAfter: 3,
} as unknown as Enforced;
const RECEIVED = 'nodewall_agent_view_received_timestamp_seconds';
const IN_FORCE = 'nodewall_agent_view_in_force_timestamp_seconds';

function metricsAt(clock: { seconds: number }) {
  return prometheusMetrics({ version: '1', isInCluster: true, ofRules: true, seconds: () => clock.seconds });
}

describe('metrics of an agent', () => {
  it('are the same series over 1,000 revisions', async () => {
    const clock = { seconds: 1_000 };
    const metrics = metricsAt(clock);
    metrics.extend(egressMetrics);
    const before = seriesOf(await metrics.registry.metrics());
    for (let revision = 1; revision <= 1_000; revision++) {
      clock.seconds++;
      metrics.bookmark(`e.${revision}.p`);
      metrics.enforced(ENFORCED);
      metrics.revision(`e.${revision}.p`);
      metrics.reported();
      metrics.failed();
      metrics.drifted();
    }
    assert.deepEqual(seriesOf(await metrics.registry.metrics()), before);
    assert.ok(before.length > 30, `${before.length}`);
  });

  it('have the series of an extension once, however often it asks for them', async () => {
    const metrics = metricsAt({ seconds: 1_000 });
    const first = metrics.extend(egressMetrics);
    assert.equal(metrics.extend(egressMetrics), first);
    const lacks = 'nodewall_egress_network_lacks';
    first.lacks(3);
    assert.equal(valuesOf(await metrics.registry.metrics()).get(lacks), 3);
  });

  it('say that the agent is not ready once its token was refused for half a minute, until it is accepted', () => {
    const clock = { seconds: 100 };
    const metrics = metricsAt(clock);
    metrics.enforced(ENFORCED);
    metrics.tokenRefused(true);
    clock.seconds += 29;
    assert.equal(metrics.ready(), null);
    metrics.tokenRefused(true);
    clock.seconds += 1;
    assert.match(
      metrics.ready() ?? '',
      /was the ServiceAccount made again\? Restart the pods.*the rules in force stay/,
    );
    metrics.tokenRefused(false);
    assert.equal(metrics.ready(), null);
  });

  it('say when the newest view arrived, and when the one in force did', async () => {
    const clock = { seconds: 100 };
    const metrics = metricsAt(clock);
    const times = async (): Promise<(number | undefined)[]> => {
      const values = valuesOf(await metrics.registry.metrics());
      return [values.get(RECEIVED), values.get(IN_FORCE)];
    };
    metrics.revision('saved');
    assert.deepEqual(await times(), [0, 0]);
    metrics.bookmark('1');
    metrics.revision('1');
    assert.deepEqual(await times(), [100, 100]);
    clock.seconds = 130;
    metrics.bookmark('1');
    metrics.revision('1');
    assert.deepEqual(
      await times(),
      [100, 100],
      'a bookmark that keeps the connection alive is no other view',
    );
    metrics.bookmark('2');
    clock.seconds = 140;
    metrics.bookmark('3');
    assert.deepEqual(await times(), [140, 100]);
    metrics.revision('2');
    assert.deepEqual(await times(), [140, 130]);
    metrics.revision('3');
    assert.deepEqual(await times(), [140, 140]);
    metrics.revision(null);
    assert.deepEqual(await times(), [140, 0]);
  });

  it('remember no view for ever that does not come into force', async () => {
    const clock = { seconds: 0 };
    const metrics = metricsAt(clock);
    for (let revision = 1; revision <= 200; revision++) {
      clock.seconds = revision;
      metrics.bookmark(`${revision}`);
    }
    metrics.revision('100');
    assert.equal(valuesOf(await metrics.registry.metrics()).get(IN_FORCE), 0);
    metrics.revision('101');
    assert.equal(valuesOf(await metrics.registry.metrics()).get(IN_FORCE), 101);
  });

  it('count ended connections of at most 1,000 policies by name', async () => {
    const metrics = metricsAt({ seconds: 0 });
    for (let policy = 0; policy < 1_200; policy++) metrics.ended(`nodewall.io/p-${policy}`, 1);
    metrics.ended('nodewall.io/p-0', 1);
    const values = valuesOf(await metrics.registry.metrics());
    const ended = [...values.keys()].filter((series) => series.includes('ended_connections'));
    assert.equal(ended.length, 1_001);
    const name = 'nodewall_agent_ended_connections_total';
    assert.equal(values.get(`${name}{api_group="",policy="(others)"}`), 200);
    assert.equal(values.get(`${name}{api_group="nodewall.io",policy="p-0"}`), 2);
  });

  it('have the troubles of each monitor from the start', async () => {
    const values = valuesOf(await metricsAt({ seconds: 0 }).registry.metrics());
    const name = 'nodewall_agent_monitor_troubles_total';
    assert.equal(values.get(`${name}{monitor="links",trouble="failed"}`), 0);
  });
});
