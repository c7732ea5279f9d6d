import assert from 'node:assert/strict';
import type { CompiledPolicy, CompiledRule } from '../../apis/compiled.ts';
import type { NodeReport, NodeTotals, RuleTotal } from '../../apis/node-report.ts';
import { present } from '../../lib/sharing/present.ts';
import { RuleSums } from './rule-sums.ts';

const rule = (id: string, action = 'Drop', mode = 'Enforce'): CompiledRule =>
  ({ id, action, mode, source: { rule: id } }) as unknown as CompiledRule;
const policies = (...rules: CompiledRule[]): readonly CompiledPolicy[] => [
  { apiGroup: 'nodewall.io', name: 'p', rules, spans: [] },
];
const report = (rules?: readonly RuleTotal[], more: Partial<NodeTotals> = {}): NodeReport =>
  ({ totals: { ...present({ rules }), ...more } }) as unknown as NodeReport;

describe('sums of rules over nodes', () => {
  let now: readonly CompiledPolicy[];
  let sums: RuleSums;
  beforeEach(() => {
    now = policies(rule('a'), rule('b', 'Reject'), rule('c', 'Allow'), rule('d', 'Drop', 'Audit'));
    sums = new RuleSums(() => now);
  });
  const packets = (...ids: string[]) => ids.map((id) => sums.get(id).packets);

  it('add what came since the report before, of every node', () => {
    const first = report([['a', 100, 9_000]]);
    sums.receive(first, null);
    assert.deepEqual(packets('a'), [0], 'what was before the controller heard of the node');
    const second = report([
      ['a', 103, 9_300],
      ['b', 2, 80],
    ]);
    sums.receive(second, first);
    sums.receive(report([['a', 7, 70]]), report([]));
    assert.deepEqual(
      [sums.get('a'), sums.get('b')],
      [
        { packets: 10, bytes: 370 },
        { packets: 2, bytes: 80 },
      ],
    );
  });

  it('take a total that shrank for one that began again', () => {
    sums.receive(report([['a', 4, 40]]), report([['a', 100, 9_000]]));
    assert.deepEqual(sums.get('a'), { packets: 4, bytes: 40 });
  });

  it('add nothing where the report before does not have the total', () => {
    sums.receive(report([['a', 50, 500]]), report());
    sums.receive(report(), report([['a', 50, 500]]));
    sums.receive(report([['a', 50, 500]]), report([['b', 1, 1]], { isCut: true }));
    sums.receive(report([['a', 50, 500]]), {} as NodeReport);
    assert.deepEqual(packets('a', 'b'), [0, 0]);
  });

  it('have only rules that drop or reject, whatever a node names', () => {
    assert.deepEqual([...sums.rules().keys()], ['a', 'b']);
    const names = ['c', 'd', 'unknown'].map((id): RuleTotal => [id, 5, 50]);
    sums.receive(report(names), report([]));
    assert.deepEqual(packets('c', 'd', 'unknown'), [0, 0, 0]);
  });

  it('forget a rule that is removed', () => {
    sums.receive(report([['a', 5, 50]]), report([]));
    now = policies(rule('b'));
    sums.forgetRemoved();
    now = policies(rule('a'));
    assert.deepEqual(packets('a'), [0]);
  });
});
