import assert from 'node:assert/strict';
import { Registry } from 'prom-client';
import type { RuleTotals } from '../record/accounting.ts';
import { egressMetrics } from './egress-metrics.ts';

function total(packets: number): RuleTotals {
  return { packets, bytes: 0, lastHit: null, logged: 0, recorded: 0 };
}

async function series(totals: ReadonlyMap<string, RuleTotals>, name: string): Promise<string[]> {
  const registry = new Registry();
  const metrics = egressMetrics([registry], () => totals);
  metrics.lacks(2);
  metrics.records('begun', 3);
  metrics.records('lost', 1);
  const text = await registry.getSingleMetricAsString(name);
  return text.split('\n').filter((line) => !line.startsWith('#'));
}

describe('metrics of egress gateways', () => {
  it('count by policy, by policy of mode Audit, and by drop reason', async () => {
    const totals = new Map([
      ['egress-policy EgressPolicy shop/bank', total(5)],
      ['egress-audit ClusterEgressPolicy all', total(4)],
      ['egress-drop not-ready', total(3)],
      ['some rule', total(2)],
    ]);
    assert.deepEqual(await series(totals, 'nodewall_egress_packets_total'), [
      'nodewall_egress_packets_total{policy="EgressPolicy shop/bank"} 5',
    ]);
    assert.deepEqual(await series(totals, 'nodewall_egress_audited_packets_total'), [
      'nodewall_egress_audited_packets_total{policy="ClusterEgressPolicy all"} 4',
    ]);
    assert.deepEqual(await series(totals, 'nodewall_egress_dropped_packets_total'), [
      'nodewall_egress_dropped_packets_total{reason="not-ready"} 3',
    ]);
    assert.deepEqual(await series(totals, 'nodewall_egress_network_lacks'), [
      'nodewall_egress_network_lacks 2',
    ]);
    assert.deepEqual(await series(totals, 'nodewall_egress_records_total'), [
      'nodewall_egress_records_total{event="begun"} 3',
      'nodewall_egress_records_total{event="ended"} 0',
      'nodewall_egress_records_total{event="lost"} 1',
    ]);
  });

  it('have at most 1,000 policies by name', async () => {
    const policies = Array.from(
      { length: 1_200 },
      (_, i) => [`egress-policy p${10_000 + i}`, total(1)] as const,
    );
    const lines = await series(new Map(policies), 'nodewall_egress_packets_total');
    assert.equal(lines.length, 1_001);
    assert.equal(lines.at(-1), 'nodewall_egress_packets_total{policy="(others)"} 200');
  });

  it('have the table of connections', async () => {
    const [entries] = await series(new Map(), 'nodewall_egress_conntrack_entries');
    assert.match(entries ?? '', /^nodewall_egress_conntrack_entries (\d+|Nan)$/i);
  });
});
