import assert from 'node:assert/strict';
import { formatAddress } from './address.ts';
import { parsePoolRange } from './interval.ts';

describe('a range of an address pool', () => {
  const VALID: readonly (readonly [text: string, canonical: string, first: string, last: string])[] = [
    ['192.0.2.7', '192.0.2.7', '192.0.2.7', '192.0.2.7'],
    ['192.0.2.7-192.0.2.9', '192.0.2.7-192.0.2.9', '192.0.2.7', '192.0.2.9'],
    ['192.0.2.7-192.0.2.7', '192.0.2.7', '192.0.2.7', '192.0.2.7'],
    ['192.0.2.64/28', '192.0.2.64/28', '192.0.2.65', '192.0.2.78'],
    ['192.0.2.70/28', '192.0.2.64/28', '192.0.2.65', '192.0.2.78'],
    ['192.0.2.4/30', '192.0.2.4/30', '192.0.2.5', '192.0.2.6'],
    ['192.0.2.4/31', '192.0.2.4/31', '192.0.2.4', '192.0.2.5'],
    ['192.0.2.4/32', '192.0.2.4', '192.0.2.4', '192.0.2.4'],
    ['2001:DB8:0::1', '2001:db8::1', '2001:db8::1', '2001:db8::1'],
    ['2001:db8::1-2001:db8::a', '2001:db8::1-2001:db8::a', '2001:db8::1', '2001:db8::a'],
    ['2001:db8::/126', '2001:db8::/126', '2001:db8::', '2001:db8::3'],
  ];
  for (const [text, canonical, first, last] of VALID) {
    it(`${text} is ${first} to ${last}`, () => {
      const range = parsePoolRange(text);
      assert.ok(range !== null);
      const { family, addresses } = range;
      assert.deepEqual([range.text, formatAddress({ family, value: addresses.first })], [canonical, first]);
      assert.equal(formatAddress({ family, value: addresses.last }), last);
    });
  }

  for (const text of [
    '',
    'a',
    '192.0.2.9-192.0.2.7',
    '192.0.2.7 - 192.0.2.9',
    '192.0.2.7-',
    '192.0.2.7-192.0.2.8-192.0.2.9',
    '192.0.2.7-2001:db8::1',
    '192.0.2.0/33',
    'fd00:1/126',
  ]) {
    it(`${JSON.stringify(text)} is none`, () => assert.equal(parsePoolRange(text), null));
  }
});
