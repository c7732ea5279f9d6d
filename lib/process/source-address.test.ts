import assert from 'node:assert/strict';
import { sourceOf } from './source-address.ts';

describe('sourceOf', () => {
  for (const [remoteAddress, source] of [
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::6', '2001:db8:1:2::/64'],
    ['2001:db8::6', '2001:db8:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['2001:db8:1:2:3::', '2001:db8:1:2::/64'],
    [undefined, ''],
  ] as const) {
    it(`counts ${remoteAddress} as ${source}`, () => assert.equal(sourceOf({ remoteAddress }), source));
  }
});
