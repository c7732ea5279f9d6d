import assert from 'node:assert/strict';
import { parseEgressFlow, parseFlow } from './flow.ts';

describe('an address of a flow', () => {
  const FLOW = { direction: 'ingress', protocol: 'tcp', dstPort: 22 };

  it('is read as IPv4 where it is IPv4-mapped, as programs log it', () => {
    const MAPPED = ['::ffff:10.1.0.9', '::FFFF:a01:9', '0:0:0:0:0:ffff:10.1.0.9'];
    for (const field of ['src', 'dst', 'originalDst'])
      for (const text of MAPPED)
        assert.deepEqual(parseFlow({ ...FLOW, [field]: text }), { ...FLOW, [field]: '10.1.0.9' });
    const egress = { traffic: 'Egress', src: '10.1.0.9' } as const;
    for (const dst of MAPPED)
      assert.deepEqual(parseEgressFlow({ ...egress, dst }), { ...egress, dst: '10.1.0.9' });
    const flow = parseFlow({ ...FLOW, src: '::ffff:10.1.0.9', dst: '10.0.0.1' });
    assert.deepEqual([flow.src, flow.dst], ['10.1.0.9', '10.0.0.1']);
    assert.throws(
      () => parseFlow({ ...FLOW, src: '::ffff:10.1.0.9', dst: 'fd00::1' }),
      /not of one IP family/,
    );
  });

  it('is any other', () => {
    for (const src of ['10.1.0.9', '::10.1.0.9', 'fd00::1'])
      assert.deepEqual(parseFlow({ ...FLOW, src }), { ...FLOW, src });
  });
});

it('a flow with very many wrong fields is refused with the first ten', () => {
  const fields = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`f${i}`, 1]));
  for (const refused of [
    () => parseFlow(fields),
    () => parseEgressFlow({ traffic: 'Egress', dst: '192.0.2.1', src: '10.0.0.1', ...fields }),
  ])
    assert.throws(
      refused,
      ({ message }: Error) => (message.match(/f\d+: unknown field/g) ?? []).length === 10,
    );
});
