import assert from 'node:assert/strict';
import fc from 'fast-check';
import { changeAddresses, hasAddress, memberCount, toMemberSet } from './member-set.ts';
import { diffMembers, diffSingles, sameSingles, singlesCount } from './packed-keys.ts';

/** So many addresses that a change does not copy them. */
const BASE = Array.from({ length: 2000 }, (_, i) => text(3 * i));
function text(n: number): string {
  return `10.0.${n >> 8}.${n & 255}`;
}

const addresses = fc.array(fc.integer({ min: 0, max: 6000 }).map(text), { maxLength: 6 });
const changes = fc.array(fc.record({ less: addresses, more: addresses, isAsked: fc.boolean() }), {
  maxLength: 12,
});

/** Compares as arrays, since a copy may be a Buffer or not. */
const bytes = ({ added, removed }: ReturnType<typeof diffMembers>) => [[...added], [...removed]];

describe('changed singles', () => {
  it('property: equal a full copy', () => {
    fc.assert(
      fc.property(changes, (all) => {
        let members = toMemberSet([], BASE);
        const wanted = new Set(BASE);
        let last = members;
        for (const { less, more, isAsked } of all) {
          const before = members;
          members = changeAddresses(members, less, more);
          for (const one of less) wanted.delete(one);
          for (const one of more) wanted.add(one);
          assert.equal(memberCount(members.v4), wanted.size);
          for (const one of [...less, ...more]) assert.equal(hasAddress(members, one), wanted.has(one));
          const found = diffMembers(before.v4, members.v4);
          const now = toMemberSet([], wanted);
          assert.deepEqual(bytes(found), bytes(diffSingles(4, last.v4.singles, now.v4.singles)));
          last = now;
          assert.equal(sameSingles(before.v4, members.v4), found.added.length + found.removed.length === 0);
          if (isAsked) assert.equal(members.v4.singles.length, 4 * wanted.size);
        }
        assert.deepEqual(members, toMemberSet([], wanted));
      }),
    );
  });

  it('are the same object if nothing changes', () => {
    const members = toMemberSet([], BASE);
    const less = changeAddresses(members, [text(3)], []);
    assert.equal(changeAddresses(less, [text(3), text(4)], [text(6)]).v4, less.v4);
    assert.ok(sameSingles(changeAddresses(less, [], [text(3)]).v4, members.v4));
  });

  it('are copied after many changes', () => {
    let members = toMemberSet([], BASE);
    for (let i = 0; i < 3000; i++) members = changeAddresses(members, [], [text(3 * i + 1)]);
    assert.equal(singlesCount(members.v4), 5000);
    const last = changeAddresses(members, [text(1)], []);
    assert.equal(diffMembers(members.v4, last.v4).removed.length, 4);
  });
});
