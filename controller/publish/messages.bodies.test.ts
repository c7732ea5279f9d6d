import assert from 'node:assert/strict';
import type { AddressSet } from '../../apis/compiled.ts';
import { parseCidr } from '../../lib/net/address.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';
import { addressSetUpdate } from './messages.ts';

function set(members: readonly string[], more: Partial<AddressSet> = {}): AddressSet {
  const blocks = members.flatMap((text) => {
    const cidr = text.includes('/') ? parseCidr(text)?.cidr : undefined;
    return cidr === undefined ? [] : [{ cidr, except: [] }];
  });
  const addresses = members.filter((text) => !text.includes('/'));
  return {
    id: 's',
    description: 'd',
    dynamic: true,
    names: [],
    members: toMemberSet(blocks, addresses),
    ...more,
  };
}

describe('addressSetUpdate', () => {
  const many = Array.from({ length: 50 }, (_, i) => `10.0.0.${i}`);

  it('names added and removed members of both families', () => {
    assert.deepEqual(
      addressSetUpdate(set([...many, 'fd00::1']), set([...many.slice(1), 'fd00::2', '10.0.1.1'])),
      {
        type: 'addressSetPatch',
        id: 's',
        add: ['10.0.1.1', 'fd00::2'],
        remove: ['10.0.0.0', 'fd00::1'],
      },
    );
  });

  it('names prefixes, and the addresses that they newly cover or no longer cover', () => {
    const before = set([...many, '10.0.9.9', '172.16.0.0/12']);
    const now = set([...many, '10.0.9.9', '10.0.9.0/24']);
    const there = {
      type: 'addressSetPatch',
      id: 's',
      add: ['10.0.9.0/24'],
      remove: ['10.0.9.9', '172.16.0.0/12'],
    };
    const back = { type: 'addressSetPatch', id: 's', add: there.remove, remove: there.add };
    assert.deepEqual(addressSetUpdate(before, now), there);
    assert.deepEqual(addressSetUpdate(now, before), back);
  });

  it('is null if the members are equal', () => {
    assert.equal(addressSetUpdate(set(many), set(many.toReversed())), null);
  });

  it('omits empty fields', () => {
    assert.deepEqual(addressSetUpdate(set(many), set([...many, '10.0.1.1'])), {
      type: 'addressSetPatch',
      id: 's',
      add: ['10.0.1.1'],
    });
  });

  it('is the whole set if that is shorter or the description changed', () => {
    const few = { type: 'addressSet', id: 's', description: 'd', dynamic: true, members: ['10.0.0.0'] };
    assert.deepEqual(addressSetUpdate(set(many), set(many.slice(0, 1))), few);
    assert.deepEqual(
      addressSetUpdate(set(many.slice(0, 1)), set(many.slice(0, 1), { names: ['x.example'] })),
      {
        ...few,
        names: ['x.example'],
      },
    );
  });
});
