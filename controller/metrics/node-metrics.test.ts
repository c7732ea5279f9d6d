import assert from 'node:assert/strict';
import type { NodeReport } from '../../apis/node-report.ts';
import { allNodes } from '../../test/metrics/all-nodes.ts';
import { seriesOf, valuesOf } from '../../test/metrics/promtool.ts';
import { MOST_RULES, NodeMetrics } from './node-metrics.ts';

const REPORT = {
  node: 'a',
  revision: 'e.1',
  enforced: 'e.1',
  enabled: true,
  failing: [],
  policies: 1,
  hostAddresses: [],
  version: '0.1.0',
  dataplane: 'nftables',
  time: '1970-01-01T00:00:00.000Z',
} satisfies NodeReport;
const TOTALS = { drifts: 1, rollbacks: 2, recordsLost: 3, denied: 4, failsafeRules: 5 };
const failing = (policy: string, more = {}) => ({
  apiGroup: 'nodewall.io' as const,
  policy,
  generation: 1,
  rule: 'r',
  reason: 'why',
  ...more,
});

/** The page about nodes with these last reports. */
async function pageOf(reports: Readonly<Record<string, NodeReport | null>>, missing: string | null = null) {
  const metrics = new NodeMetrics({
    nodes: () => new Map(Object.entries(reports)),
    reports: { get: (node) => reports[node] ?? null },
    policies: () => [],
    missing: () => missing,
    clock: { date: () => new Date(0) },
  });
  return await metrics.page();
}

async function valuesAbout(report: NodeReport | null): Promise<Record<string, number>> {
  const page = await pageOf({ a: report });
  assert.ok('text' in page);
  return Object.fromEntries(
    [...valuesOf(page.text)].flatMap(([series, value]) => {
      const name = /^nodewall_node_(\w+)\{node="a"\}$/.exec(series)?.[1];
      return name === undefined ? [] : [[name, value]];
    }),
  );
}

describe('the page about all nodes', () => {
  it('has what a node reports', async () => {
    const policies = [failing('p'), failing('p'), failing('q'), failing('s', { rolledBack: true })];
    assert.deepEqual(
      await valuesAbout({
        ...REPORT,
        failing: policies,
        totals: TOTALS,
        platform: [{ entry: 'udp/8472', reason: 'vxlan flannel.1' }],
      }),
      {
        up_to_date: 0,
        off: 0,
        last_report_timestamp_seconds: 0,
        policies_failing: 2,
        policies_rolled_back: 1,
        platform_entries: 1,
        failsafe_rules: 5,
        drifts_total: 1,
        rollbacks_total: 2,
        records_lost_total: 3,
        denied_packets_total: 4,
      },
    );
  });

  it('leaves out what is not known', async () => {
    const known = { up_to_date: 0, last_report_timestamp_seconds: 0 };
    assert.deepEqual(await valuesAbout(null), known, 'never heard of');
    const { drifts_total, up_to_date, off } = await valuesAbout(REPORT);
    assert.deepEqual([drifts_total, up_to_date, off], [undefined, 1, 0], 'an agent without totals');
  });

  for (const [what, more, upToDate, off] of [
    ['that enforces all', {}, 1, 0],
    ['whose gate is off', { enabled: false }, 1, 0],
    ['that is switched off', { off: '' }, 0, 1],
    ['that is behind', { enforced: null }, 0, 0],
    ['that cannot follow', { viewError: 'x' }, 0, 0],
    ['that is silent', { time: '1969-12-31T00:00:00.000Z' }, 0, 0],
  ] as const) {
    it(`says whether a node is up to date ${what}`, async () => {
      const values = await valuesAbout({ ...REPORT, ...more });
      assert.deepEqual([values.up_to_date, values.off], [upToDate, off]);
    });
  }

  it('counts the nodes of each phase', async () => {
    const page = await pageOf({ a: REPORT, b: { ...REPORT, off: '' }, c: null });
    assert.ok('text' in page);
    const values = valuesOf(page.text);
    const phases = ['Enforced', 'Off', 'Unknown', 'Silent'];
    assert.deepEqual(
      phases.map((phase) => values.get(`nodewall_nodes{phase="${phase}"}`)),
      [1, 1, 1, 0],
    );
  });

  it('is refused as long as reports are missing: nodes would look silent', async () => {
    assert.deepEqual(await pageOf({ a: null }, 'not yet'), { problem: 'not yet' });
  });

  it('is within its bounds with 5,000 nodes, and the same series over 1,000 revisions', async function () {
    this.timeout(60_000);
    const cluster = allNodes({ nodes: 5_000, rules: 3_000 });
    cluster.report(1);
    const page = await cluster.page();
    const series = seriesOf(page);
    assert.ok(series.length <= 60_000 && series.length > 50_000, `${series.length} series`);
    assert.ok(Buffer.byteLength(page) <= 12_000_000, `${Buffer.byteLength(page)} bytes`);
    assert.equal(valuesOf(page).get('nodewall_rules_left_out'), 3_000 - MOST_RULES);
    const few = allNodes({ nodes: 2, rules: 200 });
    few.report(1);
    const before = seriesOf(await few.page());
    for (let revision = 2; revision <= 1_000; revision++) few.report(revision);
    assert.deepEqual(seriesOf(await few.page()), before);
    const name = 'nodewall_rule_denied_packets_total';
    const labels =
      'api_group="nodewall.io",policy="protect-control-plane-5",direction="ingress",rule="drop-0"';
    assert.equal(valuesOf(await few.page()).get(`${name}{${labels}}`), 2 * 999);
  });
});
