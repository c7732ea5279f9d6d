import assert from 'node:assert/strict';
import type { NodeReport, NodeTotals } from '../../apis/node-report.ts';
import { eventsBetween, NodeEvents } from './node-events.ts';

const TOTALS: NodeTotals = { drifts: 2, rollbacks: 1, recordsLost: 0, denied: 0, failsafeRules: 0 };

function report(more: Partial<NodeTotals> | null, rolledBack: readonly string[] = []): NodeReport {
  const failing = rolledBack.map((policy) => ({ policy, rolledBack: true }));
  return { node: 'n1', failing, ...(more && { totals: { ...TOTALS, ...more } }) } as unknown as NodeReport;
}

describe('events between two reports of a node', () => {
  for (const [what, now, before, expected] of [
    ['nothing, if nothing happened', report({}), report({}), []],
    [
      'what was repaired',
      report({ drifts: 3 }),
      report({}),
      [
        'NodewallDriftRepaired: a third party changed the rules of nodewall in the kernel (once); the agent repaired them',
      ],
    ],
    [
      'what was repaired since the agent began again',
      report({ drifts: 1 }),
      report({ drifts: 9 }),
      [
        'NodewallDriftRepaired: a third party changed the rules of nodewall in the kernel (once); the agent repaired them',
      ],
    ],
    [
      'what was rolled back',
      report({ rollbacks: 3 }, ['a', 'a', 'b']),
      report({}),
      ['NodewallRolledBack: the node rolled back changes of policies (2 times): a, b'],
    ],
    [
      'that rules begin to spare the failsafe list',
      report({ failsafeRules: 2 }),
      report({}),
      [
        'NodewallFailsafeInEffect: the traffic of the failsafe list is exempt from 2 of the rules in force, which deny and name no ports',
      ],
    ],
    ['nothing, while they go on', report({ failsafeRules: 3 }), report({ failsafeRules: 2 }), []],
    ['nothing of the first report', report({ drifts: 5 }), null, []],
    ['nothing of an agent that counts nothing', report({ drifts: 5 }), report(null), []],
  ] as const) {
    it(`say ${what}`, () =>
      assert.deepEqual(
        eventsBetween(now, before).map(({ reason, note }) => `${reason}: ${note}`),
        expected,
      ));
  }

  it('are written by the leader, and few of one node', () => {
    const written: string[] = [];
    let [leads, now] = [false, 0];
    const events = new NodeEvents({
      events: { happened: (node, { reason }) => written.push(`${node} ${reason}`) },
      isLeader: () => leads,
      now: () => now,
    });
    events.receive(report({ drifts: 3 }), report({}));
    assert.deepEqual(written, []);
    leads = true;
    for (let i = 0; i < 100; i++) events.receive(report({ drifts: 3 }), report({}));
    assert.deepEqual(written, Array(6).fill('n1 NodewallDriftRepaired'));
    now = 60_000;
    for (let i = 0; i < 100; i++) events.receive(report({ drifts: 3 }), report({}));
    assert.equal(written.length, 7);
  });
});
