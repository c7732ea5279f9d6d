import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type Address, formatAddress, parseAddress, parseCidr, WIDTH } from './address.ts';
import {
  addAddresses,
  changeAddresses,
  coversFamily,
  diffSingles,
  formatMembers,
  hasMember,
  memberCount,
  packAddress,
  sameMembers,
  toMemberSet,
  unpackAddress,
} from './member-set.ts';

const cidr = (text: string) => parseCidr(text)?.cidr ?? assert.fail(text);
const block = (text: string, ...except: string[]) => ({ cidr: cidr(text), except: except.map(cidr) });
const address = (text: string) => parseAddress(text) ?? assert.fail(text);

/** A few addresses around 10.0.0.0/24 and 2001:db8::/120. */
const NEAR = fc.oneof(
  fc.integer({ min: -3, max: 258 }).map((n): Address => ({ family: 4, value: BigInt(0x0a000000 + n) })),
  fc
    .integer({ min: -3, max: 258 })
    .map((n): Address => ({ family: 6, value: (0x20010db8n << 96n) + BigInt(n) })),
);
const BLOCK = fc.tuple(NEAR, fc.integer({ min: 0, max: 10 })).map(([{ family, value }, free]) => {
  return cidr(`${formatAddress({ family, value })}/${(family === 4 ? 32 : 128) - free}`);
});

describe('MemberSet', () => {
  it('after adding addresses equals a set made with them', () => {
    const parts = fc.record({
      blocks: fc.array(fc.record({ cidr: BLOCK, except: fc.array(BLOCK, { maxLength: 2 }) }), {
        maxLength: 3,
      }),
      first: fc.array(NEAR.map(formatAddress), { maxLength: 6 }),
      more: fc.array(NEAR.map(formatAddress), { maxLength: 6 }),
    });
    fc.assert(
      fc.property(parts, ({ blocks, first, more }) => {
        const before = toMemberSet(blocks, first);
        const copy = formatMembers(before);
        const added = addAddresses(before, more);
        const whole = toMemberSet(blocks, [...first, ...more]);
        assert.ok(sameMembers(added.v4, whole.v4) && sameMembers(added.v6, whole.v6));
        assert.deepEqual(formatMembers(before), copy, 'what it was added to stays');
      }),
    );
  });

  it('after removing and adding addresses equals a set made so', () => {
    const list = fc.uniqueArray(NEAR.map(formatAddress), { maxLength: 12 });
    const blocks = fc.array(fc.record({ cidr: BLOCK, except: fc.constant([]) }), { maxLength: 2 });
    fc.assert(
      fc.property(blocks, list, list, list, (given, kept, removed, added) => {
        const free = removed.filter((one) => !kept.includes(one) && !added.includes(one));
        const others = free.filter((one) => !hasMember(toMemberSet(given, []), address(one)));
        const changed = changeAddresses(toMemberSet(given, [...kept, ...others]), others, added);
        assert.deepEqual(changed, toMemberSet(given, [...kept, ...added]));
      }),
    );
    const before = toMemberSet([], ['10.0.0.1', '2001:db8::1']);
    assert.equal(changeAddresses(before, ['10.0.0.2'], ['10.0.0.1']).v4, before.v4);
  });

  it('keeps the object of an unchanged family', () => {
    const before = toMemberSet([], ['10.0.0.1', '2001:db8::1']);
    const added = addAddresses(before, ['10.0.0.2']);
    assert.equal(added.v6, before.v6);
    assert.deepEqual(formatMembers(added), ['10.0.0.1', '10.0.0.2', '2001:db8::1']);
  });

  it('has exactly the addresses of its blocks without their exceptions, and the singles', () => {
    const parts = fc.record({
      blocks: fc.array(fc.record({ cidr: BLOCK, except: fc.array(BLOCK, { maxLength: 2 }) }), {
        maxLength: 4,
      }),
      singles: fc.array(NEAR, { maxLength: 6 }),
      asked: fc.array(NEAR, { minLength: 20, maxLength: 20 }),
    });
    fc.assert(
      fc.property(parts, ({ blocks, singles, asked }) => {
        const set = toMemberSet(blocks, singles.map(formatAddress));
        for (const one of [...asked, ...singles]) {
          const isIn = (of: { family: number; value: bigint; length: number }): boolean => {
            const bits = of.family === 4 ? 32 : 128;
            const free = BigInt(bits - of.length);
            return of.family === one.family && of.value >> free === one.value >> free;
          };
          const wanted =
            singles.some(({ family, value }) => family === one.family && value === one.value) ||
            blocks.some(({ cidr: whole, except }) => isIn(whole) && !except.some(isIn));
          assert.equal(hasMember(set, one), wanted, formatAddress(one));
        }
      }),
      { numRuns: 300 },
    );
  });

  it('is equal for the same addresses in any order and notation', () => {
    const one = toMemberSet(
      [block('10.0.0.0/25'), block('10.0.0.128/25')],
      ['192.0.2.2', '192.0.2.1', '192.0.2.1'],
    );
    const other = toMemberSet([block('10.0.0.0/24')], ['192.0.2.1', '192.0.2.2', '10.0.0.9']);
    assert.deepEqual(formatMembers(one), ['10.0.0.0/24', '192.0.2.1', '192.0.2.2']);
    assert.ok(sameMembers(one.v4, other.v4));
    assert.equal(memberCount(one.v4), 3);
  });

  it('sorts addresses as numbers, IPv4 first', () => {
    const set = toMemberSet([], ['10.0.0.10', '10.0.0.9', '9.0.0.0', '200.0.0.1', '2001:db8::', '::1']);
    assert.deepEqual(formatMembers(set), [
      '9.0.0.0',
      '10.0.0.9',
      '10.0.0.10',
      '200.0.0.1',
      '::1',
      '2001:db8::',
    ]);
  });

  it('keeps single addresses single, and one of a block as a single', () => {
    const set = toMemberSet(
      [block('10.0.0.0/31'), block('10.1.0.0/30', '10.1.0.0/31', '10.1.0.3/32')],
      ['10.2.0.0', '10.2.0.1'],
    );
    assert.deepEqual(formatMembers(set), ['10.0.0.0/31', '10.1.0.2', '10.2.0.0', '10.2.0.1']);
    assert.equal(set.v4.prefixes.length, 1);
  });

  it('detects that it covers a whole family', () => {
    assert.ok(coversFamily(toMemberSet([block('0.0.0.0/1'), block('128.0.0.0/1')], []).v4));
    assert.ok(!coversFamily(toMemberSet([block('0.0.0.0/0', '10.0.0.0/8')], []).v4));
    assert.ok(coversFamily(toMemberSet([block('::/0')], ['::1']).v6));
  });

  it('rejects text that is not an address', () => {
    assert.throws(() => toMemberSet([], ['10.0.0']), /10\.0\.0 is not an IP address/);
  });

  it('packs addresses in network byte order', () => {
    assert.deepEqual([...packAddress(address('10.1.2.3'))], [10, 1, 2, 3]);
    assert.deepEqual(unpackAddress(6, packAddress(address('2001:db8::7')), 0), address('2001:db8::7'));
  });

  it('diffSingles returns the addresses to add and to remove', () => {
    const keys = fc.array(fc.integer({ min: 0, max: 40 }), { maxLength: 20 });
    const run = fc.tuple(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 0, max: 60 }));
    const runs = fc
      .array(run, { maxLength: 4 })
      .map((list) => list.flatMap(([first, count]) => Array.from({ length: count }, (_, i) => first + i)));
    const lists = fc.oneof(keys, runs);
    fc.assert(
      fc.property(lists, lists, fc.constantFrom<4 | 6>(4, 6), (before, after, family) => {
        const text = (n: number) =>
          formatAddress({ family, value: (family === 4 ? 1n << 31n : 1n << 127n) + BigInt(n) });
        const pack = (list: number[]) => toMemberSet([], list.map(text))[family === 4 ? 'v4' : 'v6'].singles;
        const { added, removed } = diffSingles(WIDTH[family], pack(before), pack(after));
        assert.deepEqual(Buffer.from(added), Buffer.from(pack(after.filter((n) => !before.includes(n)))));
        assert.deepEqual(Buffer.from(removed), Buffer.from(pack(before.filter((n) => !after.includes(n)))));
      }),
    );
  });
});
