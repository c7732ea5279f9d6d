import assert from 'node:assert/strict';
import fc from 'fast-check';
import { recordText } from './record-text.ts';

describe('recordText', () => {
  const of = (record: object) => recordText({ time: 't', node: 'n', ...record });

  it('writes addresses in canonical form', () => {
    const flow = {
      verdict: 'Drop',
      protocol: 'tcp',
      src: '2001:db8::9',
      srcPort: 4,
      dst: '10.0.0.1',
      dstPort: 22,
    };
    assert.match(of(flow), /tcp \[2001:db8::9\]:4 → 10\.0\.0\.1:22/);
    assert.match(
      of({ ...flow, originalDst: '203.0.113.1', originalDstPort: 80 }),
      /10\.0\.0\.1:22 \(for 203\.0\.113\.1:80\)/,
    );
    const ping = { verdict: 'Allow', protocol: 'icmpv6', icmpType: 128, icmpCode: 0, src: '::1', dst: '::2' };
    assert.match(of(ping), /icmpv6 128\/0 ::1 → ::2$/);
  });

  it('shows suppressed and lost records', () => {
    assert.equal(
      of({ suppressed: 7, policy: 'p', rule: 'r', tier: 't' }),
      't  t p/r  (7 more of this rule not recorded)',
    );
    assert.equal(of({ lost: 7 }), 't  (7 records lost)');
  });

  it('escapes control characters in values', () => {
    const keys = [
      'time',
      'verdict',
      'policy',
      'rule',
      'tier',
      'label',
      'src',
      'dst',
      'protocol',
      'interface',
      'after',
      'lost',
    ];
    const values = fc.oneof(
      // Not fast-check's `binary`, which makes a table of all characters: seconds.
      fc.string({ unit: fc.oneof(fc.nat(0xff), fc.nat(0x10ffff)).map((code) => String.fromCodePoint(code)) }),
      fc.constantFrom('\u001b[31m', '\u009b0m', 'a\nb', '\u202e', '\u007f'),
    );
    fc.assert(
      fc.property(fc.constantFrom(...keys), values, (key, value) => {
        assert.doesNotMatch(of({ verdict: 'Drop', [key]: value }), /[\p{Cc}\p{Cf}]/u);
      }),
    );
  });
});
