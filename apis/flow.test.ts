import assert from 'node:assert/strict';
import { parseEgressFlow, parseFlow } from './flow.ts';

describe('an address of a flow', () => {
  const FLOW = { direction: 'ingress', protocol: 'tcp', dstPort: 22 };

  it('is refused as an IPv4-mapped one, with the one to write', () => {
    for (const field of ['src', 'dst', 'originalDst']) {
      const wanted = `${field}: ::ffff:10.1.0.9 is IPv4-mapped, and no packet has such an address; write 10.1.0.9`;
      assert.throws(() => parseFlow({ ...FLOW, [field]: '::ffff:10.1.0.9' }), new TypeError(wanted));
    }
    const egress = { traffic: 'Egress', src: '10.1.0.9', dst: '::ffff:a01:9' } as const;
    assert.throws(() => parseEgressFlow(egress), /dst: ::ffff:a01:9 is IPv4-mapped/);
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
