import assert from 'node:assert/strict';
import { INWARD_ANSWER, INWARD_QUESTION, inwardConnection, PEER_ANSWER } from './probes.ts';
import { decode } from './schema/shape.ts';

const BOTH = ['192.0.2.1', '2001:db8::1', '192.0.2.2'];

describe('inward probes on the wire', () => {
  it("go to the Node's first address, or the first of a family", () => {
    const target = { kind: 'tcp', port: 22 } as const;
    const addressOf = (family: 4 | 6 | null, addresses = BOTH) =>
      inwardConnection({ family, target }, addresses)?.address;
    assert.deepEqual(
      [addressOf(null), addressOf(4), addressOf(6)],
      ['192.0.2.1', '192.0.2.1', '2001:db8::1'],
    );
    assert.equal(addressOf(6, ['192.0.2.1']), undefined);
    const url = 'https://node6:10250/healthz';
    const http = inwardConnection({ family: 6, target: { kind: 'http', url, port: 10_250 } }, BOTH);
    assert.deepEqual(http, {
      kind: 'http',
      port: 10_250,
      address: '2001:db8::1',
      url: 'https://[2001:db8::1]:10250/healthz',
    });
  });

  it('are refused where they are not valid, and cut to the longest time', () => {
    const asked = { probes: [{ name: 'ssh', prober: 'b', more: 1 }], milliseconds: 1e9 };
    assert.deepEqual(decode(INWARD_QUESTION, asked), {
      probes: [{ name: 'ssh', prober: 'b' }],
      milliseconds: 3_000,
    });
    const questions: unknown[] = [
      ...[null, {}, { probes: [{}], milliseconds: 1 }, { probes: [], milliseconds: -1 }],
      { probes: [{ name: 'x'.repeat(254) }], milliseconds: 1 },
      { probes: Array(12).fill({ name: 'ssh' }), milliseconds: 1 },
    ];
    for (const one of questions) assert.ok(!INWARD_QUESTION.accepts(one), JSON.stringify(one));
    const made = { name: 'ssh', prober: 'b', address: '192.0.2.1', error: null, source: null };
    assert.deepEqual(decode(INWARD_ANSWER, { results: [made] }), { results: [made] });
    for (const one of [null, { results: [{ ...made, error: 5 }] }, { results: [{ name: 'ssh' }] }])
      assert.ok(!INWARD_ANSWER.accepts(one), JSON.stringify(one));
    const answer = { id: '1', error: 'no answer', source: '192.0.2.1' };
    assert.deepEqual(decode(PEER_ANSWER, { ...answer, more: 1 }), answer);
    for (const one of [null, { ...answer, source: 'here' }, { ...answer, id: '' }])
      assert.ok(!PEER_ANSWER.accepts(one), JSON.stringify(one));
  });
});
