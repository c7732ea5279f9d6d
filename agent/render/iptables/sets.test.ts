import assert from 'node:assert/strict';
import { parseCidr } from '../../../lib/net/address.ts';
import { toMemberSet } from '../../../lib/net/member-set.ts';
import type { NamedSet } from '../ruleset.ts';
import { toIpSet } from './sets.ts';

function typeOf(family: 4 | 6, cidrs: readonly string[], addresses: readonly string[]): string {
  const blocks = cidrs.map((text) => ({ cidr: parseCidr(text)?.cidr ?? assert.fail(text), except: [] }));
  const { v4, v6 } = toMemberSet(blocks, addresses);
  const members = family === 4 ? v4 : v6;
  const set: NamedSet = {
    name: `peers-a-v${family}`,
    family,
    key: 'address',
    interval: false,
    members,
    comment: null,
  };
  assert.equal(toIpSet(set).members, members);
  return toIpSet(set).type;
}

describe('an ipset', () => {
  it('is a hash:net if it has prefixes, else a hash:ip', () => {
    assert.equal(typeOf(4, [], ['192.0.2.1', '10.0.0.0']), 'hash:ip');
    assert.equal(typeOf(4, ['10.0.0.0/8'], ['192.0.2.1']), 'hash:net');
    assert.equal(typeOf(6, ['10.0.0.0/8'], ['2001:db8::1']), 'hash:ip');
    assert.equal(typeOf(4, [], []), 'hash:ip');
  });

  it('is a hash:net if it has the unspecified address, which no hash:ip can store', () => {
    assert.equal(typeOf(4, [], ['192.0.2.1', '0.0.0.0']), 'hash:net');
    assert.equal(typeOf(6, [], ['::']), 'hash:net');
    assert.equal(typeOf(6, [], ['::1']), 'hash:ip');
  });
});
