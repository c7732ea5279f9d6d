import assert from 'node:assert/strict';
import fc from 'fast-check';
import { formatAddress, parseAddress } from '../../../lib/net/address.ts';
import { hasMember, unpackAddress } from '../../../lib/net/member-set.ts';
import { peersOf } from '../../../test/fake/node-state.ts';
import { check } from '../../../test/properties/runs.ts';
import { type Classes, PeerAddressSpace } from './classes.ts';
import type { Peers } from './match-entry.ts';

function classesOf(...peers: readonly Peers[]): Classes {
  return new PeerAddressSpace(peers).restrict(peers);
}

/** Each address and range, with the keys of the peers that contain it. */
function words({ peers, peersOf: of, tables }: Classes): Record<string, string> {
  const keys = (number: number | undefined): string =>
    (of[number ?? -1] ?? []).map((peer) => peers[peer]?.key).join(' ');
  return Object.fromEntries(
    tables.flatMap(({ family, singles, classOfSingle, ranges, classOfRange }) => {
      const width = family === 4 ? 4 : 16;
      const text = (packed: Uint8Array, i: number): string =>
        formatAddress(unpackAddress(family, packed, i * width));
      return [
        ...[...classOfSingle].map((number, i) => [text(singles, i), keys(number)] as const),
        ...[...classOfRange].map(
          (number, i) => [`${text(ranges, 2 * i)}-${text(ranges, 2 * i + 1)}`, keys(number)] as const,
        ),
      ];
    }),
  );
}

describe('address classes', () => {
  it('are none for peers without members', () => {
    assert.deepEqual(words(classesOf(peersOf('a'))), {});
  });

  it('two addresses have the same class if the same peers have them', () => {
    const found = classesOf(
      peersOf('a', '10.0.0.1', '10.0.0.2', '10.0.0.3'),
      peersOf('b', '10.0.0.3', '10.0.0.2'),
    );
    assert.deepEqual(words(found), { '10.0.0.1': 'a', '10.0.0.2': 'a b', '10.0.0.3': 'a b' });
    assert.equal(found.peersOf.length, 2);
  });

  it('nested prefixes are split', () => {
    const found = classesOf(
      peersOf('a', '10.0.0.0/8'),
      peersOf('b', '10.1.0.0/16'),
      peersOf('c', '10.1.128.0/17'),
    );
    assert.deepEqual(words(found), {
      '10.0.0.0-10.0.255.255': 'a',
      '10.1.0.0-10.1.127.255': 'a b',
      '10.1.128.0-10.1.255.255': 'a b c',
      '10.2.0.0-10.255.255.255': 'a',
    });
  });

  it('adjacent prefixes of one peer are one range, unless another peer begins there', () => {
    const touching = peersOf('a', '10.0.0.0/9', '10.128.0.0/10');
    assert.deepEqual(words(classesOf(touching)), { '10.0.0.0-10.191.255.255': 'a' });
    assert.deepEqual(words(classesOf(touching, peersOf('b', '10.128.0.0/9'))), {
      '10.0.0.0-10.127.255.255': 'a',
      '10.128.0.0-10.191.255.255': 'a b',
      '10.192.0.0-10.255.255.255': 'b',
    });
  });

  it('a range continues over adjacent prefixes of one peer', () => {
    // 10.0.0.0/24 and 10.0.1.0/25 are adjacent, but are not one prefix.
    const found = classesOf(peersOf('a', '10.0.0.0/24', '10.0.1.0/25'), peersOf('b', '10.0.0.0/16'));
    assert.deepEqual(words(found), {
      '10.0.0.0-10.0.1.127': 'a b',
      '10.0.1.128-10.0.255.255': 'b',
    });
  });

  it('a single address in a prefix has the peers of both', () => {
    const found = classesOf(
      peersOf('a', '10.0.0.0/8'),
      peersOf('b', '10.0.0.1', '192.0.2.1'),
      peersOf('c', '10.0.0.1'),
    );
    assert.deepEqual(words(found), {
      '10.0.0.1': 'a b c',
      '192.0.2.1': 'b',
      '10.0.0.0-10.255.255.255': 'a',
    });
  });

  it('a single address at either end of a prefix is in it; next to it, it is not', () => {
    const found = classesOf(
      peersOf('a', '10.0.0.0/24'),
      peersOf('b', '9.255.255.255', '10.0.0.0', '10.0.0.255', '10.0.1.0'),
    );
    assert.deepEqual(words(found), {
      '9.255.255.255': 'b',
      '10.0.0.0': 'a b',
      '10.0.0.255': 'a b',
      '10.0.1.0': 'b',
      '10.0.0.0-10.0.0.255': 'a',
    });
  });

  it('the whole space is a prefix, in either family', () => {
    const found = classesOf(
      peersOf('all4', '0.0.0.0/0'),
      peersOf('all6', '::/0'),
      peersOf('some', '128.0.0.0/1', '255.255.255.254/31', 'ffff::/16', '::1'),
    );
    assert.deepEqual(words(found), {
      '0.0.0.0-127.255.255.255': 'all4',
      '128.0.0.0-255.255.255.255': 'all4 some',
      '::1': 'all6 some',
      '::-fffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff': 'all6',
      'ffff::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff': 'all6 some',
    });
  });

  it('the families are separate, and share a class if the same peers have both', () => {
    const found = classesOf(peersOf('a', '10.0.0.1', 'fd00::1'), peersOf('b', 'fd00::1', 'fd00::/64'));
    assert.deepEqual(words(found), {
      '10.0.0.1': 'a',
      'fd00::1': 'a b',
      'fd00::-fd00::ffff:ffff:ffff:ffff': 'b',
    });
  });

  it('are the same bytes for any order of the peers', () => {
    const peers = [
      peersOf('a', '10.0.0.0/8', '192.0.2.1'),
      peersOf('b', '10.0.0.1'),
      peersOf('c', '10.0.0.0/16'),
    ];
    assert.deepEqual(bytes(classesOf(...peers)), bytes(classesOf(...peers.toReversed())));
  });
});

/** Peers whose members are nested, adjacent, and at the ends of the address space. */
const anyPeers: fc.Arbitrary<Peers[]> = fc
  .array(
    fc.uniqueArray(
      fc.constantFrom(
        ...['10.0.0.0', '10.0.0.1', '10.0.0.2', '10.0.0.255', '10.0.1.0', '255.255.255.255', '0.0.0.0'],
        ...[
          '10.0.0.0/24',
          '10.0.0.0/25',
          '10.0.0.128/25',
          '10.0.1.0/24',
          '10.0.0.0/8',
          '0.0.0.0/0',
          '255.0.0.0/8',
        ],
        ...['fd00::1', 'fd00::2', 'fd00::/64', 'fd00::/127', '::/0', 'ffff::/16', '::'],
      ),
      { maxLength: 6 },
    ),
    { maxLength: 7 },
  )
  .map((lists) => lists.map((members, i) => peersOf(`peer${i}`, ...members)));

const PROBES = [
  ...['0.0.0.0', '9.255.255.255', '10.0.0.0', '10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.127', '10.0.0.128'],
  ...['10.0.0.255', '10.0.1.0', '10.0.1.255', '10.0.2.0', '11.0.0.0', '254.255.255.255', '255.255.255.255'],
  ...['::', '::1', 'fd00::', 'fd00::1', 'fd00::2', 'fd00::3', 'fd00:0:0:1::', 'fffe::', 'ffff::', 'ffff::1'],
];

describe('properties of address classes', () => {
  it('every address has the peers that it is a member of', function () {
    check(this, 300, anyPeers, (peers) => {
      const found = classesOf(...peers);
      for (const probe of PROBES) {
        const address = parseAddress(probe);
        assert.ok(address);
        const wanted = peers.filter(({ members }) => hasMember(members, address)).map(({ key }) => key);
        assert.deepEqual(peersAt(found, probe), wanted, probe);
      }
    });
  });

  it('no class twice, no class unused, no range that could be joined to the one before', function () {
    check(this, 300, anyPeers, (peers) => {
      const { peersOf: of, tables } = classesOf(...peers);
      assert.equal(new Set(of.map(String)).size, of.length);
      const used = tables.flatMap(({ classOfSingle, classOfRange }) => [...classOfSingle, ...classOfRange]);
      assert.deepEqual([...new Set(used)], [...of.keys()], 'numbered as they first come up');
      for (const { family, ranges, classOfRange } of tables) {
        const width = family === 4 ? 4 : 16;
        const at = (i: number): bigint => unpackAddress(family, ranges, i * width).value;
        for (let i = 1; i < classOfRange.length; i++) {
          assert.ok(at(2 * i) > at(2 * i - 1), 'sorted and disjoint');
          const touches = at(2 * i) === at(2 * i - 1) + 1n;
          assert.ok(!touches || classOfRange[i] !== classOfRange[i - 1], 'joined');
        }
      }
    });
  });

  it('those of some peers out of many equal those of only these peers, byte for byte', function () {
    const some = fc.tuple(anyPeers, fc.array(fc.boolean(), { minLength: 7, maxLength: 7 }));
    check(this, 500, some, ([peers, taken]) => {
      const own = peers.filter((_, i) => taken[i]);
      assert.deepEqual(bytes(new PeerAddressSpace(peers).restrict(own)), bytes(classesOf(...own)));
    });
  });
});

describe('an address space', () => {
  it('covers its own peers, not others, nor the same peers with different members', () => {
    const [a, b] = [peersOf('a', '10.0.0.1'), peersOf('b', '10.0.0.2')];
    const space = new PeerAddressSpace([a, b]);
    assert.equal(space.covers([a]), true);
    assert.equal(space.covers([b, a]), true);
    assert.equal(space.covers([a, peersOf('c')]), false);
    assert.equal(space.covers([peersOf('a', '10.0.0.1')]), false);
  });
});

/** The content of Classes, whatever kind of array holds it. */
function bytes({ peers, peersOf: of, tables }: Classes): object {
  return {
    peers,
    of,
    tables: tables.map(({ family, singles, classOfSingle, ranges, classOfRange }) => ({
      family,
      singles: Buffer.from(singles).toString('hex'),
      classOfSingle: [...classOfSingle],
      ranges: Buffer.from(ranges).toString('hex'),
      classOfRange: [...classOfRange],
    })),
  };
}

/** Looks up an address like the kernel: singles before ranges. */
function peersAt(classes: Classes, text: string): string[] {
  const address = parseAddress(text);
  const table = classes.tables.find(({ family }) => family === address?.family);
  assert.ok(address && table);
  const width = table.family === 4 ? 4 : 16;
  const value = (packed: Uint8Array, i: number): bigint =>
    unpackAddress(table.family, packed, i * width).value;
  const single = [...table.classOfSingle].findIndex((_, i) => value(table.singles, i) === address.value);
  const range = [...table.classOfRange].findIndex(
    (_, i) => value(table.ranges, 2 * i) <= address.value && address.value <= value(table.ranges, 2 * i + 1),
  );
  const number = single >= 0 ? table.classOfSingle[single] : table.classOfRange[range];
  return number === undefined
    ? []
    : (classes.peersOf[number] ?? []).map((peer) => classes.peers[peer]?.key ?? '');
}
