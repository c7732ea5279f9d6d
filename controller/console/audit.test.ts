import assert from 'node:assert/strict';
import type { NodeQuestion, QuestionAnswer } from '../../apis/node-question.ts';
import { policy, tcp } from '../../test/kernel/manifests.ts';
import { toClusterObjects } from '../../test/properties/pipeline.ts';
import { compile } from '../compile/compile.ts';
import { auditOf } from './audit.ts';

const NODES = ['a', 'b', 'c'].map((name, i) => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name },
  status: { addresses: [{ type: 'InternalIP', address: `10.0.0.${i + 1}` }] },
}));
const { policies } = compile(
  toClusterObjects([
    ...NODES,
    {
      ...policy('audited', {}),
      spec: {
        priority: 5,
        mode: 'Audit',
        appliedTo: [{ nodeSelector: {} }],
        ingress: [{ name: 'watch', action: 'Drop', ports: [tcp(443)] }],
      },
    },
    policy('enforced', { ingress: [{ name: 'close', action: 'Drop', ports: [tcp(80)] }] }),
  ]),
);
const [rule = assert.fail()] = policies.flatMap(({ rules }) => rules).filter(({ mode }) => mode === 'Audit');

/** The rule's counter, as a node answers. */
function counted(packets: unknown, lastHit: unknown, id = rule.id): object {
  const { direction, policy: name, apiGroup, ruleIndex } = rule.source;
  const of = { id, direction, tier: rule.tier, policy: name, apiGroup, rule: 'watch', ruleIndex };
  const counter = {
    action: 'Drop',
    mode: 'Audit',
    traffic: 'Host',
    since: null,
    packets,
    bytes: 60,
    lastHit,
  };
  return { ...of, ...counter };
}

const RECORD = {
  time: '2026-11-26T10:00:00.123456Z',
  direction: 'egress',
  src: '192.0.2.1',
  dst: '192.0.2.2',
  verdict: 'Drop',
  policy: 'p',
  rule: 'r',
  protocol: 'udp',
  dstPort: 53,
};
/** A compromised node may send these in the place of a value. */
const ODD: readonly unknown[] = [null, 7, -1, 1.5, '', 'x'.repeat(1e5), '<script>', [], {}, true];

type Answers = Readonly<Record<string, Readonly<Partial<Record<NodeQuestion['about'], unknown>>>>>;

async function audit(answers: Answers, only: readonly string[] | null = null) {
  const ask = async (node: string, { about }: NodeQuestion): Promise<QuestionAnswer> => {
    const answer = answers[node]?.[about];
    return answer === undefined ? { problem: 'no answer' } : { text: JSON.stringify(answer) };
  };
  return await auditOf({ ask, policies, only, now: () => new Date(0) });
}

function counters(...rules: readonly object[]): object {
  return { node: 'n', rules, spoofed: { packets: 0, bytes: 0, lastHit: null }, remark: null };
}

describe('the audit of a cluster', () => {
  it('adds up the counters of Audit rules on all nodes', async () => {
    const records = { records: [], isCut: false };
    const found = await audit({
      a: { counters: counters(counted(1, '2026-01-01T00:00:00.5Z')), records },
      b: { counters: counters(counted(2, '2026-01-01T00:00:00Z'), counted(9, null, 'enforced')), records },
      c: { counters: counters(counted(0, null)), records },
    });
    assert.deepEqual(found.asked, { nodes: ['a', 'b', 'c'], failed: [], notAsked: 0 });
    const [one, ...others] = found.rules;
    assert.deepEqual(others, []);
    assert.deepEqual(
      [one?.policy, one?.rule, one?.action, one?.packets, one?.bytes, one?.lastHit, one?.nodes],
      ['audited', 'watch', 'Drop', 3, 120, '2026-01-01T00:00:00.5Z', ['a', 'b']],
    );
  });

  it('names the nodes whose answer has another form, and shows the others', async () => {
    const records = { records: [], isCut: false };
    for (const odd of [
      null,
      7,
      '<script>',
      [],
      {},
      counters(counted(-1, null)),
      counters(counted('1', null)),
    ]) {
      const found = await audit({
        a: { counters: odd, records },
        b: { counters: counters(counted(2, null)), records },
      });
      assert.deepEqual(
        found.asked.failed.map(({ node }) => node),
        ['a', 'c'],
      );
      assert.deepEqual([found.rules[0]?.packets, found.rules[0]?.nodes], [2, ['b']]);
    }
    assert.deepEqual((await audit({}, ['b'])).asked.nodes, ['b']);
  });

  it('has the peers of the last records', async () => {
    const record = RECORD;
    const found = await audit({
      a: {
        counters: counters(),
        records: {
          records: [
            record,
            { ...record, time: '2026-11-26T10:00:01Z' },
            { ...record, originalDstPort: 30_053 },
          ],
          isCut: true,
        },
      },
      b: { counters: counters(), records: { records: [{ ...record, direction: 'ingress' }], isCut: false } },
      c: { counters: counters(), records: { records: [record], isCut: false } },
    });
    assert.equal(found.isCut, true);
    assert.deepEqual(
      found.peers.map(({ peer, port, records, lastSeen, nodes }) => [peer, port, records, lastSeen, nodes]),
      [
        ['192.0.2.2', 53, 3, '2026-11-26T10:00:01Z', ['a', 'c']],
        ['192.0.2.2', 30_053, 1, RECORD.time, ['a']],
        ['192.0.2.1', 53, 1, RECORD.time, ['b']],
      ],
    );
  });

  it('leaves records out that are of another form', async () => {
    const ofRecords = async (records: unknown) => {
      const found = await audit({ a: { counters: counters(), records } }, ['a']);
      assert.ok(JSON.stringify(found.peers).length < 2_000);
      return found;
    };
    for (const odd of ODD) {
      const { asked, peers } = await ofRecords({ records: [odd, RECORD], isCut: false });
      assert.deepEqual([asked.failed, peers.length], [[], 1]);
      for (const key of Object.keys(RECORD))
        await ofRecords({ records: [{ ...RECORD, [key]: odd }], isCut: false });
      if (Array.isArray(odd)) continue;
      for (const answer of [odd, { records: odd, isCut: false }])
        assert.deepEqual((await ofRecords(answer)).asked.failed.length, 1);
    }
  });
});
