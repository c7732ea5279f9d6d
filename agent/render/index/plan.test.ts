import assert from 'node:assert/strict';
import fc from 'fast-check';
import { formatAddress } from '../../../lib/net/address.ts';
import { unpackAddress } from '../../../lib/net/member-set.ts';
import { present } from '../../../lib/sharing/present.ts';
import { item, items, peersOf } from '../../../test/fake/node-state.ts';
import { check } from '../../../test/properties/runs.ts';
import type { MatchEntry } from './match-entry.ts';
import { type AddressesPlan, type Plan, REPLICATION, SHORT } from './plan.ts';
import { ownSize, planned } from './planner.ts';

const withPorts = (given: readonly MatchEntry[]): Plan => planned(given, { ports: true }).plan;

/**
 * A short form of a plan: a list is the rules' names; "80: …" is the plan for a port, "10.0.0.1: …"
 * the plan for an address, "others: …" the plan for the rest.
 */
function words(one: Plan): unknown {
  switch (one.kind) {
    case 'list':
      return one.items.map(({ id }) => id).join(' ');
    case 'sequence':
      return one.parts.map(words);
    case 'ports':
      return withOthers(one, [
        ...one.ports.map((port, i) => [String(port), planAt(one.plans, one.planOfPort[i])]),
        ...one.ranges.map((range, i) => [range.join('-'), planAt(one.plans, one.planOfRange[i])]),
      ]);
    case 'addresses':
      return withOthers(one, addressWords(one));
  }
}

function addressWords({ classes, plans }: AddressesPlan): (readonly [string, unknown])[] {
  return classes.tables.flatMap(({ family, singles, classOfSingle, ranges, classOfRange }) => {
    const width = family === 4 ? 4 : 16;
    const text = (packed: Uint8Array, i: number): string =>
      formatAddress(unpackAddress(family, packed, i * width));
    return [
      ...[...classOfSingle].map((number, i) => [text(singles, i), planAt(plans, number)] as const),
      ...[...classOfRange].map(
        (number, i) => [`${text(ranges, 2 * i)}-${text(ranges, 2 * i + 1)}`, planAt(plans, number)] as const,
      ),
    ];
  });
}

function planAt(plans: readonly Plan[], number: number | undefined): unknown {
  const found = plans[number ?? -1];
  assert.ok(found, `no plan ${number}`);
  return words(found);
}

function withOthers(
  { others }: { readonly others: Plan | null },
  entries: readonly (readonly unknown[])[],
): object {
  return { ...Object.fromEntries(entries), ...(others === null ? {} : { others: words(others) }) };
}

/** A different address for each rule. */
const address = (i: number): string => `10.0.${i >> 8}.${i & 255}`;

describe('plan', () => {
  it('of nothing is an empty list', () => {
    assert.deepEqual(withPorts([]), { kind: 'list', items: [], size: 0, tries: 0 });
  });

  it('tries few rules without a lookup', () => {
    const few = items(SHORT, (i) => ({ ports: [i + 1], from: [address(i)] }));
    assert.deepEqual(words(withPorts(few)), 'rule0 rule1 rule2 rule3');
    assert.deepEqual([withPorts(few).tries, withPorts(few).size], [SHORT, SHORT]);
  });

  it('looks up the port from one more rule on', () => {
    const found = withPorts(items(SHORT + 1, (i) => ({ ports: [i + 1] })));
    assert.deepEqual(words(found), { 1: 'rule0', 2: 'rule1', 3: 'rule2', 4: 'rule3', 5: 'rule4' });
    assert.deepEqual([found.tries, found.size], [1, SHORT + 1]);
  });

  it('looks up the address if ports do not distinguish the rules', () => {
    for (const ports of [undefined, [22]]) {
      const found = withPorts(items(5, (i) => ({ from: [address(i)], ...present({ ports }) })));
      assert.equal(found.kind, 'addresses');
      assert.deepEqual(words(found), {
        '10.0.0.0': 'rule0',
        '10.0.0.1': 'rule1',
        '10.0.0.2': 'rule2',
        '10.0.0.3': 'rule3',
        '10.0.0.4': 'rule4',
      });
      assert.deepEqual([found.tries, found.size], [1, 5]);
    }
  });

  it('looks up the address if the protocol has no ports', () => {
    const { plan: found } = planned(
      items(5, (i) => ({ from: [address(i)] })),
      { ports: false },
    );
    assert.equal(found.kind, 'addresses');
  });

  it('looks up the port, then the address, if many peers share each port', () => {
    // Each port has rules for the same six blocks, but for different hosts in them: by address
    // first, each block and host would lead to the same twelve ports.
    const blocks = [0, 32, 64, 96, 128, 160];
    const given = items(72, (i) => ({
      ports: [1 + Math.floor(i / 6)],
      from: [`${blocks[i % 6]}.0.0.0/3`, `${blocks[(i + 1) % 6]}.0.0.${i}`],
    }));
    const found = withPorts(given);
    assert.equal(found.kind, 'ports');
    const first = (words(found) as Record<string, Record<string, unknown>>)[1];
    assert.equal(first?.['0.0.0.0-31.255.255.255'], 'rule0');
    assert.equal(first?.['32.0.0.0'], 'rule0');
    assert.equal(found.tries, 1);
    assert.equal(found.size, 12 + 12 * (6 + 6));
  });

  it('looks up the address, then the port, if that is smaller: here each port would have all rules without ports', () => {
    const given = [
      item('first', { from: ['192.0.2.1'] }),
      ...items(5, (i) => ({ ports: [i + 1] })),
      item('last', { from: ['192.0.2.2'] }),
    ];
    const ports = { 1: 'rule0', 2: 'rule1', 3: 'rule2', 4: 'rule3', 5: 'rule4' };
    assert.deepEqual(words(withPorts(given)), {
      '192.0.2.1': 'first',
      '192.0.2.2': { ...ports, others: 'last' },
      others: ports,
    });
  });

  it('looks up the source port if nothing else distinguishes the rules', () => {
    const found = withPorts(items(6, (i) => ({ ports: [80], sources: [1000 + i] })));
    assert.deepEqual(words(found), {
      80: { 1000: 'rule0', 1001: 'rule1', 1002: 'rule2', 1003: 'rule3', 1004: 'rule4', 1005: 'rule5' },
    });
    assert.equal(found.tries, 1);
  });

  it('does not count a rule with source ports as a sure match before they are looked up', () => {
    const given = [item('some', { sources: [1000] }), ...items(2, () => ({}))];
    assert.deepEqual(words(withPorts(given)), ['some', 'rule0']);
  });

  it('adds rules for every port to each port, and to the list for other ports', () => {
    const given = [
      item('first', { from: ['192.0.2.1'], final: false }),
      ...items(5, (i) => ({ ports: [[10 * i, 10 * i + 9]] })),
    ];
    assert.deepEqual(words(withPorts(given)), {
      '0-9': 'first rule0',
      '10-19': 'first rule1',
      '20-29': 'first rule2',
      '30-39': 'first rule3',
      '40-49': 'first rule4',
      others: 'first',
    });
  });

  it('adds rules for any peer to each class of addresses, in order, and to the list for other addresses', () => {
    const given = [
      item('audit', { final: false }),
      ...items(5, (i) => ({ from: [address(i)] })),
      item('last', {}),
    ];
    const found = withPorts(given);
    assert.deepEqual(words(found), [
      {
        '10.0.0.0': 'audit rule0',
        '10.0.0.1': 'audit rule1',
        '10.0.0.2': 'audit rule2',
        '10.0.0.3': 'audit rule3',
        '10.0.0.4': 'audit rule4',
        others: 'audit',
      },
      'last',
    ]);
  });

  it('tries final rules for all traffic once, for all', () => {
    const found = withPorts([
      ...items(5, (i) => ({ ports: [i + 1] })),
      item('any', { final: false }),
      item('all'),
    ]);
    assert.equal(found.kind, 'sequence');
    assert.deepEqual(words(found), [
      { 1: 'rule0', 2: 'rule1', 3: 'rule2', 4: 'rule3', 5: 'rule4' },
      'any all',
    ]);
    assert.deepEqual([found.tries, found.size], [1 + 2, 5 + 2]);
  });

  it('for only rules for all traffic is the list up to the first that ends the evaluation', () => {
    assert.deepEqual(words(withPorts([item('a', { final: false }), item('b'), item('c')])), 'a b');
  });
});

describe('plan: leaves out unreachable rules', () => {
  it('after a rule that is sure to match, once the port is looked up', () => {
    const given = [
      item('a', { ports: [80], final: false }),
      item('b', { ports: [80] }),
      item('c', { ports: [80] }),
      ...items(5, (i) => ({ ports: [i + 1] })),
      item('all', { from: ['192.0.2.1'] }),
    ];
    const found = words(withPorts(given)) as Record<string, unknown>;
    assert.equal(found[80], 'a b');
    assert.equal(found[1], 'rule0');
    assert.equal(found.others, 'all');
  });

  it('but not before the port is looked up', () => {
    const found = withPorts([item('a', { ports: [80] }), item('b', { ports: [80] })]);
    assert.equal(words(found), 'a b');
    assert.equal(found.tries, 2);
  });

  it('of the same peers after the first that ends the evaluation; others stay', () => {
    const peers = peersOf('same', '10.0.0.0/8');
    const given = [
      item('first', { from: peers }),
      item('again', { from: peers }),
      item('port', { from: peers, ports: [22] }),
      item('other', { from: ['10.0.0.0/8'] }),
    ];
    assert.equal(words(withPorts(given)), 'first other');
  });

  it('of the same peers and ports, once the port is looked up', () => {
    const peers = peersOf('same', '10.0.0.0/8');
    const given = [
      ...items(5, (i) => ({ ports: [i + 1] })),
      item('first', { from: peers, ports: [80] }),
      item('again', { from: peers, ports: [80] }),
    ];
    assert.equal((words(withPorts(given)) as Record<string, unknown>)[80], 'first');
  });

  it('but none after an Audit rule, which never ends the evaluation', () => {
    const peers = peersOf('same', '10.0.0.0/8');
    const audit = { final: false };
    const given = [
      item('all', audit),
      item('first', { from: peers, ...audit }),
      item('again', { from: peers, ...audit }),
      item('third', { from: peers }),
    ];
    assert.equal(words(withPorts(given)), 'all first again third');
    const many = withPorts([
      ...items(5, (i) => ({ ports: [i + 1] })),
      ...items(3, () => ({ ports: [80], ...audit })).map((one, i) => ({ ...one, id: `audit${i}` })),
      item('end', { ports: [80] }),
    ]);
    assert.equal((words(many) as Record<string, unknown>)[80], 'audit0 audit1 audit2 end');
  });
});

describe('plan: bounds', () => {
  /** Every rule overlaps every other, in ports and addresses. */
  const tangled = (count: number): MatchEntry[] =>
    items(count, (i) => ({
      ports: [[1000 + 10 * i, 60_000 - 10 * i]],
      from: [`10.0.0.0/${8 + (i % 16)}`, `10.${i}.0.0/${9 + (i % 16)}`],
    }));

  it('is split into pieces beyond its bound', () => {
    const given = items(300, (i) => ({
      ports: [[1000 + 100 * i, 60_000]],
      from: [`${1 + (i % 200)}.0.0.0/${1 + (i % 8)}`],
      final: false,
    }));
    const found = withPorts(given);
    assert.equal(found.kind, 'sequence');
    if (found.kind !== 'sequence') return;
    assert.ok(found.parts.length > 1 && found.parts.length < 40, `${found.parts.length} pieces`);
    for (const part of found.parts) {
      assert.ok(part.size <= REPLICATION * ownSize(part.items), `${part.size}`);
    }
    assert.deepEqual(
      found.parts.flatMap((part) => part.items.map(({ id }) => id)),
      given.map(({ id }) => id),
      'every rule is in one piece, in order',
    );
    assert.ok(found.size <= REPLICATION * ownSize(given));
  });

  it('stays within its bound for rules that overlap in ports and addresses', () => {
    const given = tangled(120);
    assert.ok(withPorts(given).size <= REPLICATION * ownSize(given));
  });

  it('counts for each rule a chain, a rule per family and its ranges; for peers a set per family and the members, once', () => {
    const peers = peersOf('p', '10.0.0.1', '10.0.0.2', '10.1.0.0/16', 'fd00::1');
    assert.equal(ownSize([item('a')]), 3);
    assert.equal(ownSize([item('a', { ports: [80, [90, 99]] })]), 3 + 2);
    assert.equal(ownSize([item('a', { from: peers }), item('b', { from: peers })]), 2 * 3 + 2 + 4);
  });

  it('property: the size is that of all maps and lists, and within its bound', function () {
    check(this, 100, fc.array(anyItem(), { maxLength: 60 }), (given) => {
      const numbered = given.map((one, i) => ({ ...one, id: `rule${i}`, chain: `rule${i}` }));
      const found = withPorts(numbered);
      assert.equal(found.size, sizeOf(found));
      assert.ok(found.size <= Math.max(REPLICATION * ownSize(numbered), numbered.length));
      assert.ok(found.tries <= numbered.length);
    });
  });
});

describe('plan: needsMembers', () => {
  it('is false if only ports are looked up', () => {
    const given = items(10, (i) => ({ ports: [i + 1], from: [address(i)] }));
    assert.equal(planned(given, { ports: true }).needsMembers, false);
  });

  it('is true if addresses are looked up', () => {
    const given = items(10, (i) => ({ from: [address(i)] }));
    assert.equal(planned(given, { ports: true }).needsMembers, true);
  });
});

describe('plan: few large sets', () => {
  it('are tried separately, with the rules for any peer', () => {
    const large = peersOf('large', ...Array.from({ length: 5000 }, (_, i) => `10.1.${i >> 8}.${i & 255}`));
    const found = withPorts([item('large', { from: large }), ...items(6, (i) => ({ from: [address(i)] }))]);
    assert.equal(found.kind, 'addresses');
    assert.ok(found.size < 30, String(found.size));
    assert.equal((words(found) as Record<string, unknown>)['10.0.0.0'], 'large rule0');
    assert.equal((words(found) as Record<string, unknown>).others, 'large');
  });
});

/** Drawn from few peers and ports, so that many items share them. */
function anyItem(): fc.Arbitrary<MatchEntry> {
  const peers = [
    peersOf('a', '10.0.0.1', '10.0.0.2'),
    peersOf('b', '10.0.0.2', '10.0.0.3'),
    peersOf('c', '10.0.0.0/24'),
    peersOf('d', '10.0.0.0/8', 'fd00::/8'),
    peersOf('e', '0.0.0.0/0'),
    peersOf('f', 'fd00::1', '::/0'),
    peersOf('g', '10.0.0.4', 'fd00::2'),
    peersOf('h'),
  ];
  const range = fc
    .tuple(fc.integer({ min: 0, max: 60 }), fc.constantFrom(0, 0, 1, 20))
    .map(([first, width]) => [first, first + width] as const);
  return fc.record({
    id: fc.constant(''),
    chain: fc.constant(''),
    peers: fc.option(fc.constantFrom(...peers), { freq: 6 }),
    ranges: fc.option(
      range.map((one) => [one]),
      { freq: 4 },
    ),
    sources: fc.option(
      range.map((one) => [one]),
      { freq: 2 },
    ),
    final: fc.boolean(),
  });
}

/**
 * The size computed again: elements of the maps, and the entries of lists with more than one rule.
 */
function sizeOf(one: Plan): number {
  const inner = (plans: readonly (Plan | null)[]): number =>
    plans.reduce((total, each) => total + (each === null ? 0 : sizeOf(each)), 0);
  switch (one.kind) {
    case 'list':
      return one.items.length > 1 ? one.items.length : 0;
    case 'sequence':
      return inner(one.parts);
    case 'ports':
      return one.ports.length + one.ranges.length + inner([...one.plans, one.others]);
    case 'addresses':
      return (
        one.classes.tables.reduce((total, t) => total + t.classOfSingle.length + t.classOfRange.length, 0) +
        inner([...one.plans, one.others])
      );
  }
}
