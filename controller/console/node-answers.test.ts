import assert from 'node:assert/strict';
import { MOST_PEERS } from '../../apis/console-documents.ts';
import type { NodeFlow } from '../../apis/node-flows.ts';
import type { QuestionAnswer } from '../../apis/node-question.ts';
import { deniedPeers, FlowSums } from './node-answers.ts';

const FLOW = {
  direction: 'ingress',
  traffic: 'Host',
  peer: '192.0.2.1',
  protocol: 'tcp',
  port: 80,
  verdict: 'Drop',
  connections: 3,
  live: null,
  firstSeen: '2026-11-26T10:00:00Z',
  lastSeen: '2026-11-26T11:00:00Z',
  flow: { direction: 'ingress', src: '192.0.2.1', protocol: 'tcp', dstPort: 80 },
  decision: {
    verdict: 'Allow',
    policy: 'p',
    rule: 'r',
    ruleIndex: 0,
    tier: 'application',
    reason: 'rule',
    skipped: [],
  },
} as const satisfies NodeFlow;
/** A compromised node may send these in the place of a value. */
const ODD: readonly unknown[] = [
  null,
  undefined,
  7,
  -1,
  1.5,
  '',
  'x'.repeat(1e5),
  '<script>',
  [],
  {},
  true,
  { toString: 1 },
];

function inventory(flows: unknown): object {
  const missed = { leftOut: 0, overruns: 0, busySeconds: 0 };
  return { node: 'n', since: FLOW.firstSeen, liveAt: null, flows, isCut: false, kinds: 1, missed };
}

async function denied(answers: Readonly<Record<string, unknown>>) {
  const ask = async (node: string): Promise<QuestionAnswer> =>
    answers[node] === 'silent' ? { problem: 'no answer' } : { text: JSON.stringify(answers[node] ?? null) };
  return await deniedPeers({ ask, nodes: Object.keys(answers), all: 70 }, () => new Date(0));
}

describe('the flows of many nodes', () => {
  it('are added up where they are alike', async () => {
    const later = { ...FLOW, connections: 4, live: 1, lastSeen: '2026-11-26T12:00:00Z' };
    const { asked, flows, isCut } = await denied({
      b: inventory([later, { ...FLOW, port: 81, connections: 100 }]),
      a: inventory([FLOW]),
      c: 'silent',
    });
    assert.deepEqual(asked, {
      nodes: ['b', 'a', 'c'],
      failed: [{ node: 'c', error: 'no answer' }],
      notAsked: 67,
    });
    assert.equal(isCut, false);
    const [most, sum, ...others] = flows;
    assert.deepEqual([most?.port, most?.connections, most?.nodes, others], [81, 100, ['b'], []]);
    const { flow: _, ...shown } = FLOW;
    assert.deepEqual(sum, {
      ...shown,
      connections: 7,
      live: 1,
      lastSeen: '2026-11-26T12:00:00Z',
      decision: { verdict: 'Allow', policy: 'p', rule: 'r' },
      nodes: ['a', 'b'],
    });
  });

  it('are few, and short, whatever a node says', () => {
    const sums = new FlowSums();
    for (let i = 0; i < MOST_PEERS + 1; i++) sums.add('n', { ...FLOW, port: i, connections: i });
    const { flows, isCut } = sums.first();
    assert.deepEqual([flows.length, flows[0]?.port, isCut], [MOST_PEERS, MOST_PEERS, true]);
    const long = new FlowSums();
    long.add('n', { ...FLOW, decision: { ...FLOW.decision, policy: 'x'.repeat(1e5) } });
    const tiers = { ...FLOW.decision, tier: 'x'.repeat(1e5), audited: [] };
    long.add('n', { ...FLOW, decision: tiers, interfaceGroup: 'x'.repeat(1e5) });
    assert.equal(long.first().flows.length, 1);
    assert.ok(JSON.stringify(long.first()).length < 1_000);
  });

  it('are those of nodes whose answer has the form of `nodewall flows`', async () => {
    const odd = ODD.filter((one) => one !== undefined);
    for (const answer of [
      ...odd,
      ...odd.filter((one) => !Array.isArray(one)).map(inventory),
      ...['<script>', '10.0.0.1/33', '10.0.0.1 '].map((peer) => inventory([{ ...FLOW, peer }])),
      ...odd.map((one) => inventory([one])),
    ]) {
      const { asked, flows } = await denied({
        bad: answer,
        good: inventory([{ ...FLOW, peer: 'fd00::/64' }]),
      });
      assert.deepEqual(
        asked.failed.map(({ node }) => node),
        ['bad'],
        JSON.stringify(answer).slice(0, 100),
      );
      assert.deepEqual(
        flows.map(({ peer, nodes }) => [peer, nodes]),
        [['fd00::/64', ['good']]],
      );
    }
  });
});
