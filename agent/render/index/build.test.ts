import assert from 'node:assert/strict';
import { item, items, peersOf } from '../../../test/fake/node-state.ts';
import { chainLines, mapLines } from '../nft-text.ts';
import { buildIndex, type Dispatched, FixedChains, type LookupFields } from './build.ts';
import type { MatchEntry } from './match-entry.ts';
import type { Plan } from './plan.ts';
import { planned } from './planner.ts';

const TCP: LookupFields = { protocol: 'tcp', original: false, address: 'saddr' };

function built(given: readonly MatchEntry[], fields: LookupFields = TCP): Dispatched {
  return buildIndex('in', planned(given, { ports: fields.protocol !== null }).plan, fields);
}

/** Chains and maps as nft text, without the hashes at the end of names. */
function words({ chains, maps }: Dispatched): Record<string, string[]> {
  const short = (text: string): string => text.replaceAll(/-[0-9a-f]{10}\b/g, '-#');
  return Object.fromEntries([
    ...chains.map((chain) => [short(chain.name), chainLines(chain).map(short)] as const),
    ...maps.map((map) => [`@${short(map.name)}`, elements(mapLines(map, true)).map(short)] as const),
  ]);
}

function elements(lines: readonly string[]): string[] {
  const [, all = ''] = /^elements = \{ (.*) \}$/.exec(lines.at(-1) ?? '') ?? [];
  return all === '' ? [] : all.split(', ');
}

const address = (i: number): string => `10.0.0.${i}`;
const FIVE = [1, 2, 3, 4, 5] as const;
/** One port for each. */
const ports = items(5, (i) => ({ ports: [i + 1] }));
const sources = items(5, (i) => ({ from: [address(i)] }));

describe('index of a plan', () => {
  it('for no rules is an empty chain', () => {
    assert.deepEqual(words(built([])), { in: [] });
  });

  it('that tries rules in order is one chain', () => {
    assert.deepEqual(words(built([item('a'), item('b', { ports: [80] })].toReversed())), {
      in: ['jump b', 'jump a'],
    });
  });

  it('by port is a hash map with jumps to the rules, with gotos if no others follow', () => {
    assert.deepEqual(words(built(ports)), {
      in: ['th dport vmap @in-ports'],
      '@in-ports': FIVE.map((port) => `${port} : jump rule${port - 1}`),
    });
    const followed = [...ports, item('s', { from: ['192.0.2.1'], ports: [[0, 65_535]] }), item('last')];
    assert.deepEqual(words(built(followed)).in?.at(-1), 'jump last');
  });

  it('by port, with rules for every port, uses goto: these rules are in each list', () => {
    const given = [
      item('first', { from: ['192.0.2.1'], final: false }),
      ...ports.map((one) => ({
        ...one,
        ranges: [[10 * Number(one.id.slice(4)), 10 * Number(one.id.slice(4)) + 9] as const],
      })),
    ];
    const found = words(built(given));
    assert.deepEqual(found.in, ['th dport vmap @in-ranges-#', 'jump first']);
    assert.deepEqual(found['@in-ranges-#']?.[0], '0-9 : goto in-list-#');
    const { chains } = built(given);
    assert.equal(chains.length, 1 + 5);
    assert.deepEqual(chains[1] && chainLines(chains[1]), ['jump first', 'jump rule0']);
  });

  it('uses the port before NAT if asked to', () => {
    const found = words(built(ports, { ...TCP, original: true }));
    assert.deepEqual(found.in, ['meta l4proto tcp ct original proto-dst vmap @in-ports']);
  });

  it('by address looks up each family, single addresses before ranges', () => {
    const given = [
      ...sources,
      item('net', { from: ['10.0.0.0/24', 'fd00::/64'] }),
      item('v6', { from: ['fd00::1', 'fd00::2'] }),
    ];
    const found = words(built(given));
    assert.deepEqual(found.in, [
      'ip saddr vmap @in-v4',
      'ip saddr vmap @in-v4-ranges-#',
      'ip6 saddr vmap @in-v6',
      'ip6 saddr vmap @in-v6-ranges-#',
    ]);
    assert.deepEqual(found['@in-v4']?.[0], '10.0.0.0 : goto rule0');
    assert.deepEqual(found['@in-v4-ranges-#'], ['10.0.0.0/24 : goto net']);
    assert.deepEqual(found['@in-v6'], ['fd00::1 : goto net', 'fd00::2 : goto net']);
  });

  it('by address uses the destination if asked to', () => {
    const found = words(built(sources, { ...TCP, address: 'daddr' }));
    assert.deepEqual(found.in, ['ip daddr vmap @in-v4']);
  });

  it('by address, rules for any peer are in each list, and in a last list for other addresses', () => {
    const found = words(built([...sources, item('all', { ports: [22] })]));
    assert.deepEqual(found.in?.at(-1), 'jump all');
  });

  it('with two lookups has a map for each port, named for the port', () => {
    const blocks = [0, 32, 64, 96, 128, 160];
    const given = items(72, (i) => ({
      ports: [1 + Math.floor(i / 6)],
      from: [`${blocks[i % 6]}.0.0.0/3`, `${blocks[(i + 1) % 6]}.0.0.${i}`],
    }));
    const { maps } = built(given);
    assert.ok(
      maps.some(({ name }) => name === 'in-7-v4'),
      maps.map(({ name }) => name).join(' '),
    );
    assert.ok(words(built(given))['@in-ports']?.includes('7 : jump in-7-#'));
  });

  it('rejects port lookups for a protocol without ports', () => {
    assert.throws(
      () => buildIndex('in', planned(ports, { ports: true }).plan, { ...TCP, protocol: null }),
      /in: a map by port has an entry without ports/,
    );
  });
});

describe('index of a plan in pieces', () => {
  /** Parts that are planned separately; `build` doesn't use the sizes. */
  const sequence = (...parts: readonly (readonly MatchEntry[])[]): Plan => {
    const plans = parts.map((part) => planned(part, { ports: true }).plan);
    return { kind: 'sequence', items: parts.flat(), parts: plans, size: 0, tries: 0 };
  };
  const of = (p: Plan): Dispatched => buildIndex('in', p, TCP);

  it('returns from each piece but the last', () => {
    const found = words(
      of(
        sequence(
          sources,
          ports,
          sources.map((one) => ({ ...one, id: `${one.id}x`, chain: `${one.id}x` })),
        ),
      ),
    );
    // A part that goes to its chain and doesn't return has a chain of its own; a port map without
    // others hasn't.
    assert.deepEqual(found.in, ['jump in-#-#', 'th dport vmap @in-#-ports', 'ip saddr vmap @in-#-v4']);
    assert.deepEqual(found['in-#-#'], ['ip saddr vmap @in-#-v4']);
  });

  it('a port map with separate rules for every port has a chain of its own', () => {
    const audit = item('first', { from: ['192.0.2.1'], final: false });
    const ranges = items(5, (i) => ({ ports: [[10 * i, 10 * i + 9]] }));
    const found = words(of(sequence([audit, ...ranges], sources)));
    assert.deepEqual(found.in, ['jump in-#-#', 'ip saddr vmap @in-#-v4']);
    assert.deepEqual(found['in-#-#'], ['th dport vmap @in-#-ranges-#', 'jump first']);
  });

  it('names the pieces for their rules: a moved rule gives new pieces', () => {
    const names = (p: Plan): string[] => of(p).maps.map(({ name }) => name);
    const more = items(12, (i) => ({ ports: [100 + i] }));
    const [first, second] = [more.slice(0, 6), more.slice(6)];
    const before = names(sequence(first, second));
    const moved = names(sequence(more.slice(0, 5), more.slice(5)));
    assert.equal(before.length, 2);
    assert.deepEqual(
      before.filter((name) => moved.includes(name)),
      [],
    );
    assert.deepEqual(names(sequence(first, second)), before);
  });

  it('one piece with rules for all after it: those determine the name, the piece may change in place', () => {
    const names = (p: Plan): string[] => of(p).maps.map(({ name }) => name);
    const one = names(sequence(ports, [item('all')]));
    assert.deepEqual(
      names(sequence(ports.slice(0, 4).concat(item('new', { ports: [9] })), [item('all')])),
      one,
    );
    assert.notDeepEqual(names(sequence(ports, [item('other')])), one);
  });
});

describe('names in an index', () => {
  const chainsOf = (given: readonly MatchEntry[]): string[] => built(given).chains.map(({ name }) => name);

  it('of a single port stays while other ports change', () => {
    const shared = items(3, () => ({ ports: [80] })).map((one, i) => ({
      ...one,
      id: `s${i}`,
      chain: `s${i}`,
      final: false,
    }));
    const before = built([...ports, ...shared]);
    const after = built([...ports.slice(1), ...shared, item('new', { ports: [99] })]);
    const list = (of: Dispatched): string | undefined => of.chains[1]?.name;
    assert.ok(list(before)?.startsWith('in-list-'));
    assert.equal(list(before), list(after));
    assert.equal(before.maps[0]?.name, after.maps[0]?.name, 'the hash map changes in place');
  });

  it('of the map for a port depends on the port only', () => {
    const blocks = [0, 32, 64, 96, 128, 160];
    const given = (more: number): MatchEntry[] =>
      items(72 + more, (i) => ({
        ports: [1 + (i < 72 ? Math.floor(i / 6) : 6)],
        from: i < 72 ? [`${blocks[i % 6]}.0.0.0/3`, `${blocks[(i + 1) % 6]}.0.0.${i}`] : [`200.0.0.${i}`],
      }));
    const names = (more: number): Set<string> =>
      new Set(
        built(given(more))
          .maps.filter(({ interval }) => !interval)
          .map(({ name }) => name),
      );
    assert.deepEqual(names(3), names(0));
    assert.ok(names(0).has('in-7-v4'));
  });

  it('of a fixed chain and an interval map depends on their content', () => {
    const ranges = (last: number): MatchEntry[] =>
      items(5, (i) => ({ ports: [[1000 * i, 1000 * i + (i === 4 ? last : 500)]] }));
    const [a, b] = [built(ranges(500)), built(ranges(501))];
    assert.match(a.maps[0]?.name ?? '', /^in-ranges-[0-9a-f]{10}$/);
    assert.notEqual(a.maps[0]?.name, b.maps[0]?.name);
    assert.deepEqual(built(ranges(500)).maps[0]?.name, a.maps[0]?.name);
    const elsewhere = ranges(500).map((one) => ({ ...one, chain: `other-${one.chain}` }));
    assert.notEqual(built(elsewhere).maps[0]?.name, a.maps[0]?.name, 'where ranges lead is content too');
    for (const map of [...a.maps, ...built(sources).maps]) assert.equal(map.fixed, map.interval);
    const [root, ...fixed] = built(
      [...ports, item('b', { ports: [1, 2], final: false }), item('c', { from: ['192.0.2.1'] })].reverse(),
    ).chains;
    assert.equal(root?.fixed, false);
    assert.ok(fixed.length > 0 && fixed.every((chain) => chain.fixed));
  });

  it('equal lists are one chain', () => {
    const two = (port: number): MatchEntry[] => [item(`a${port}`, { ports: [port] })];
    const shared = [item('x', { ports: [1, 2, 3], final: false }), item('y', { ports: [1, 2, 3] })];
    const lists = chainsOf([...shared, ...[4, 5, 6].flatMap(two)]).filter((name) =>
      name.startsWith('in-list'),
    );
    assert.equal(lists.length, 1);
  });

  it('of the map for an address depends on the peers with it, not on other peers', () => {
    // The same eight ports for each of the peers.
    const given = (count: number): MatchEntry[] =>
      Array.from({ length: count }, (_, n) => peersOf(`peers ${n}`, address(n))).flatMap((from) =>
        Array.from({ length: 8 }, (_, i) =>
          item(`${from.key.replace(' ', '')}-${i}`, { from, ports: [i + 1] }),
        ),
      );
    const maps = (count: number): string[] => built(given(count)).maps.map(({ name }) => name);
    const few = maps(6);
    assert.equal(few.length, 1 + 6);
    assert.ok(
      few.every((name) => /^in-v4$|^in-[0-9a-f]{10}-ports$/.test(name)),
      few.join(' '),
    );
    assert.deepEqual(
      few.filter((name) => !maps(7).includes(name)),
      [],
    );
  });

  it('known fixed chains are reused', () => {
    const known = new FixedChains();
    const shared = [
      ...ports,
      ...items(2, () => ({ ports: [80], final: false })).map((one, i) => ({
        ...one,
        chain: `s${i}`,
        id: `s${i}`,
      })),
    ];
    const make = (): Dispatched => buildIndex('in', planned(shared, { ports: true }).plan, TCP, known);
    const first = make();
    known.next();
    const second = make();
    assert.notEqual(first.chains[1], undefined);
    assert.equal(first.chains[1], second.chains[1]);
    known.next();
    known.next();
    assert.notEqual(make().chains[1], first.chains[1]);
  });
});

describe('the levels of an index', () => {
  /** How many chains call each other below the first one, without those of rules. */
  function depth({ chains, maps }: Dispatched): number {
    const byName = new Map(chains.map((chain) => [chain.name, chain]));
    const mapsByName = new Map(maps.map((map) => [map.name, map]));
    const below = (name: string): number => {
      const chain = byName.get(name);
      if (chain === undefined) return -1;
      const targets = chain.rules.flatMap(({ statement }) => {
        if ('map' in statement)
          return (mapsByName.get(statement.map)?.verdicts ?? []).map((one) => one.chain);
        return 'chain' in statement ? [statement.chain] : [];
      });
      return Math.max(-1, ...targets.map(below)) + 1;
    };
    return below('in');
  }
  const given = [
    ...items(400, (i) => ({
      ports: [1 + (i % 20)],
      from: [address(i % 17), `10.${i % 13}.0.0/16`],
      sources: [1000 + (i % 11)],
      final: i % 3 > 0,
    })),
    item('everything'),
  ];

  for (const levels of [0, 1, 2, 3, 8]) {
    it(`are at most ${levels} if the kernel allows no more`, () => {
      const found = buildIndex('in', planned(given, { ports: true, levels }).plan, TCP);
      assert.ok(depth(found) <= levels, `${depth(found)} levels`);
    });
  }

  it('are as many as these rules need', () => {
    assert.ok(depth(buildIndex('in', planned(given, { ports: true }).plan, TCP)) > 2);
  });
});
