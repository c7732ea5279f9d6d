import assert from 'node:assert/strict';
import { flowsOfNode, recordsOfNode } from './node-answers.ts';

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
  decision: { verdict: 'Allow', policy: 'p', rule: 'r' },
};
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

describe('answers of nodes', () => {
  it('are read', () => {
    const [flow] = flowsOfNode({ flows: [FLOW] });
    assert.deepEqual(
      [flow?.peer, flow?.port, flow?.decision],
      ['192.0.2.1', 80, { verdict: 'Allow', rule: { policy: 'p', rule: 'r' } }],
    );
    const { records, isCut } = recordsOfNode({ records: [RECORD], isCut: true });
    assert.deepEqual(
      [records[0]?.peer, records[0]?.port, records[0]?.time, isCut],
      ['192.0.2.2', 53, '2026-11-26T10:00:00Z', true],
    );
  });

  it('are left out where they are of another form, and never throw', () => {
    for (const peer of ['<script>', '10.0.0.1/33', '10.0.0.1 '])
      assert.deepEqual(flowsOfNode({ flows: [{ ...FLOW, peer }] }), [], peer);
    assert.equal(flowsOfNode({ flows: [{ ...FLOW, peer: 'fd00::/64' }] }).length, 1);
    for (const odd of ODD) {
      for (const answer of [odd, { flows: odd, records: odd }, { flows: [odd], records: [odd] }]) {
        assert.deepEqual([flowsOfNode(answer), recordsOfNode(answer).records], [[], []]);
      }
      for (const key of Object.keys(FLOW)) {
        for (const flow of flowsOfNode({ flows: [{ ...FLOW, [key]: odd }] }))
          assert.ok(JSON.stringify(flow).length < 2_000, key);
      }
      for (const key of Object.keys(RECORD)) {
        for (const one of recordsOfNode({ records: [{ ...RECORD, [key]: odd }] }).records)
          assert.ok(JSON.stringify(one).length < 2_000, key);
      }
    }
  });
});
