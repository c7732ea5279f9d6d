import assert from 'node:assert/strict';
import type { CompiledPolicy } from '../../apis/compiled.ts';
import { MOST_DROP_ROWS } from '../../apis/console-documents.ts';
import type { NodeReport, RuleTotal } from '../../apis/node-report.ts';
import { compiledRule } from '../../test/fake/node-state.ts';
import { DropHistory, STEP, STEPS } from './drop-history.ts';

type Totals = Pick<NodeReport, 'node' | 'totals'>;

describe('drops over a day', () => {
  let now = 1_800_000_000_000;
  const rules = Array.from({ length: 300 }, (_, i) => compiledRule(`r${i}`));
  const policies: CompiledPolicy[] = [
    { apiGroup: 'nodewall.io', name: 'p', rules, spans: rules.map(() => new Set(['n'])) },
  ];
  const history = () => new DropHistory({ policies: () => policies, now: () => now });
  const report = (node: string, denied: number, ...own: readonly RuleTotal[]): Totals => ({
    node,
    totals: { drifts: 0, rollbacks: 0, recordsLost: 0, failsafeRules: 0, denied, rules: own },
  });

  it('are what totals of the same node grow by, in steps that move on', () => {
    const drops = history();
    drops.receive(report('n', 100, ['r0', 100, 1]), null);
    assert.deepEqual(drops.document(null).rules, [], 'the first report is no growth');
    drops.receive(report('n', 130, ['r0', 130, 1]), report('n', 100, ['r0', 100, 1]));
    now += 2 * STEP;
    drops.receive(report('n', 135, ['r0', 135, 1]), report('n', 130, ['r0', 130, 1]));
    const {
      rules: [rule],
      nodes: [node],
      total,
    } = drops.document(null);
    assert.deepEqual([rule?.packets, rule?.series, rule?.policy], [35, [30, 0, 5], rules[0]?.source.policy]);
    assert.deepEqual([node?.node, node?.packets, total.series], ['n', 35, [30, 0, 5]]);
    now += STEPS * STEP;
    assert.deepEqual(drops.document(null).rules, [], 'forgotten after a day');
  });

  it('have a rate that fades', () => {
    const drops = history();
    drops.receive(report('n', 120), report('n', 0));
    const rates = [0, 60_000, 600_000].map((later) => {
      now += later;
      return drops.document(null).total.packetsPerSecond;
    });
    assert.equal(rates[0], 1);
    assert.ok((rates[1] ?? 0) < 0.7 && (rates[2] ?? 1) < 0.01, String(rates));
  });

  it('begin again with a counter that does', () => {
    const drops = history();
    drops.receive(report('n', 7, ['r0', 7, 1]), report('n', 100, ['r0', 100, 1]));
    assert.equal(drops.document(null).rules[0]?.packets, 7);
  });

  it('take no rule that does not exist, and show a bounded number', () => {
    const drops = history();
    drops.receive(report('n', 9, ['<script>', 9, 9]), report('n', 0));
    assert.deepEqual(drops.document(null).rules, []);
    const all = rules.map(({ id }, i): RuleTotal => [id, i + 1, 1]);
    drops.receive(report('n', 9, ...all), report('n', 9));
    const { rules: shown, rulesLeftOut } = drops.document(null);
    assert.deepEqual([shown.length, rulesLeftOut, shown[0]?.packets], [MOST_DROP_ROWS, 100, 300]);
  });

  it('hold no more than so many nodes, those with most', () => {
    const drops = history();
    for (let i = 0; i < 6_000; i++) drops.receive(report(`n${i}`, i + 1), report(`n${i}`, 0));
    const { nodes, nodesLeftOut } = drops.document(null);
    assert.equal(nodes[0]?.node, 'n5999');
    assert.ok(nodes.length + nodesLeftOut <= 4_400, String(nodesLeftOut));
  });
});
