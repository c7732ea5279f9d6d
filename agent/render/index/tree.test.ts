import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { CompiledRule, PortMatch, PortRange } from '../../../apis/compiled.ts';
import { compiledRule, peersOf } from '../../../test/fake/node-state.ts';
import { check } from '../../../test/properties/runs.ts';
import { chainLines } from '../nft-text.ts';
import type { Match } from '../ruleset.ts';
import type { Dispatched } from './build.ts';
import type { DispatchOptions } from './dispatch.ts';
import type { IndexRule, Peers } from './match-entry.ts';
import { TreeIndexer } from './tree.ts';

const ANY_TRAFFIC: DispatchOptions = { original: false, address: 'saddr', scope: null };

function indexed(entries: readonly IndexRule[], options: Partial<DispatchOptions> = {}): Dispatched {
  return new TreeIndexer().dispatch('in', entries, { ...ANY_TRAFFIC, ...options });
}

const tcp = (first: number, last = first): PortMatch => ({ protocol: 'tcp', ports: [first, last] });

/**
 * A rule with peers of its own. No two rules are known to have the same peers, so none makes
 * another unreachable.
 */
function of(
  chain: string,
  services: readonly PortMatch[] = [],
  changes: Partial<Omit<CompiledRule, 'source'>> = {},
  peers: Peers | null = peersOf(chain, '10.0.0.1'),
): IndexRule {
  return { chain, rule: compiledRule(chain, { services, ...changes }), peers };
}

function many(length: number, toServices: (index: number) => readonly PortMatch[]): IndexRule[] {
  return Array.from({ length }, (_, i) => of(`r${i}`, toServices(i)));
}

/** The text of each chain; the hashes in names are replaced by numbers. */
function lines({ chains }: Dispatched): Record<string, string[]> {
  const names = chains.map(({ name }) => name);
  const short = (text: string): string =>
    names.reduce((all, name, i) => all.replaceAll(name, name.replace(/-tree-.*/, `-tree${i}`)), text);
  return Object.fromEntries(chains.map((chain) => [short(chain.name), chainLines(chain).map(short)]));
}

interface Walk {
  /** The rule chains that are tried if none of them decides. */
  readonly tried: readonly string[];
  /** The number of rules of the index that are evaluated. */
  readonly walked: number;
  /**
   * The most chains that lead to each other, from the entry chain to that of a rule, by jump as
   * well as by goto.
   */
  readonly depth: number;
}

/** Evaluates the index for TCP packets to a port. */
function walker({ chains, maps }: Dispatched): (port: number) => Walk {
  assert.deepEqual(maps, []);
  const known = new Map(chains.map((chain) => [chain.name, chain]));
  return (port) => {
    const tried: string[] = [];
    let [walked, deepest] = [0, 0];
    const into = (name: string, depth: number): void => {
      deepest = Math.max(deepest, depth);
      const chain = known.get(name);
      if (chain === undefined) tried.push(name);
      for (const { matches, statement } of chain?.rules ?? []) {
        walked++;
        if (!matches.every((match) => isOf(match, port))) continue;
        assert.ok(statement.kind === 'jump' || statement.kind === 'goto');
        into(statement.chain, depth + 1);
        if (statement.kind === 'goto') return;
      }
    };
    into('in', 1);
    return { tried, walked, depth: deepest };
  };
}

function isOf(match: Match, port: number): boolean {
  if (match.match === 'l4proto') return match.protocols.includes('tcp');
  assert.ok(match.match === 'port' && match.protocol === 'tcp' && match.field === 'dport');
  const [[first, last] = [0, 0], ...more] = match.ranges;
  assert.equal(more.length, 0, 'one range');
  return first <= port && port <= last;
}

function portsOf({ services }: CompiledRule): readonly PortRange[] | null {
  return services.length === 0
    ? null
    : services.flatMap((one) => ('ports' in one && one.ports ? [one.ports] : []));
}

/** The rules that can match a packet to each of the ports, in order. */
function expectedAt(entries: readonly IndexRule[], ports: readonly number[]): readonly Set<string>[] {
  const found = ports.map(() => new Set<string>());
  for (const { chain, rule } of entries)
    for (const [first, last] of portsOf(rule) ?? [[0, 65_535] as const])
      ports.forEach((port, i) => {
        if (first <= port && port <= last) found[i]?.add(chain);
      });
  return found;
}

/**
 * Evaluates packets to these ports: each must meet all rules that can match it, in order. Returns
 * the longest and the deepest walk.
 */
function longest(
  found: Dispatched,
  entries: readonly IndexRule[],
  ports: readonly number[],
): Omit<Walk, 'tried'> {
  const walk = walker(found);
  const expected = expectedAt(entries, ports);
  let [walked, depth] = [0, 0];
  for (const [i, port] of ports.entries()) {
    const one = walk(port);
    walked = Math.max(walked, one.walked);
    depth = Math.max(depth, one.depth);
    const wanted = expected[i] ?? new Set();
    // A list may contain other rules too.
    const tried = one.tried.filter((chain) => wanted.has(chain));
    assert.deepEqual(tried, [...wanted], `port ${port}`);
  }
  return { walked, depth };
}

/** Every `step`-th port. */
function ports(step: number): number[] {
  return Array.from({ length: Math.ceil(65_536 / step) }, (_, i) => i * step);
}

describe('port tree', () => {
  it('for no rules is an empty chain', () => {
    assert.deepEqual(lines(indexed([])), { in: [] });
  });

  it('for few rules is a list', () => {
    assert.deepEqual(lines(indexed([...many(4, (i) => [tcp(i)]), of('all')])), {
      in: ['meta l4proto tcp goto in-tcp', 'jump all'],
      'in-tcp': ['jump r0', 'jump r1', 'jump r2', 'jump r3', 'jump all'],
    });
  });

  it('compares ports step by step, and leads directly to a single rule', () => {
    assert.deepEqual(lines(indexed(many(7, (i) => [tcp(10 * i, 10 * i + 5)]))), {
      in: ['meta l4proto tcp goto in-tcp'],
      'in-tcp': [
        'tcp dport 0-35 goto in-tcp-tree2',
        'tcp dport 40-45 goto r4',
        'tcp dport 50-55 goto r5',
        'tcp dport 60-65 goto r6',
      ],
      'in-tcp-tree2': [
        'tcp dport 0-5 goto r0',
        'tcp dport 10-15 goto r1',
        'tcp dport 20-25 goto r2',
        'tcp dport 30-35 goto r3',
      ],
    });
  });

  it('has a list for ports with several rules, shared by ports with the same rules', () => {
    const found = indexed([
      ...many(5, (i) => [tcp(i)]),
      of('both', [tcp(2), tcp(9)]),
      of('also', [tcp(2), tcp(9)]),
    ]);
    const lists = found.chains.map(chainLines).filter((all) => all.every((line) => line.startsWith('jump')));
    assert.deepEqual(lists, [
      ['jump r2', 'jump both', 'jump also'],
      ['jump both', 'jump also'],
    ]);
  });

  it('has rules without ports in each list only if rules with ports come before and after them', () => {
    const entries = [
      of('first'),
      ...many(6, (i) => [tcp(i, i + 1)]),
      of('mid'),
      of('b', [tcp(80)]),
      of('last'),
    ];
    longest(indexed(entries), entries, ports(1));
    const tree = lines(indexed(entries));
    assert.match(tree['in-tcp']?.join() ?? '', /^jump first,jump in-tcp-tree\d+,jump last$/);
    const all = Object.values(tree).flat();
    assert.equal(all.filter((line) => line === 'jump last').length, 2, 'of all protocols and of TCP');
    assert.ok(all.filter((line) => line === 'jump mid').length > 6);
  });

  it('leaves out rules after a rule that is sure to match', () => {
    const sure = of('sure', [tcp(3)], {}, null);
    const found = indexed([...many(6, (i) => [tcp(i)]), sure, of('behind', [tcp(3)])]);
    assert.deepEqual(walker(found)(3).tried, ['r3', 'sure']);
    const audit = of('audit', [tcp(3)], { mode: 'Audit' }, null);
    assert.deepEqual(walker(indexed([...many(6, (i) => [tcp(i)]), audit, of('behind', [tcp(3)])]))(3).tried, [
      'r3',
      'audit',
      'behind',
    ]);
  });

  it('keeps other protocols separate', () => {
    const found = lines(
      indexed([...many(6, (i) => [{ protocol: 'udp', ports: [i, i] }]), of('ping', [{ protocol: 'icmp' }])]),
    );
    assert.deepEqual(found.in, ['meta l4proto udp goto in-udp', 'meta l4proto icmp goto in-icmp']);
    assert.match(found['in-udp']?.[0] ?? '', /^udp dport 0-/);
    assert.deepEqual(found['in-icmp'], ['jump ping']);
  });

  it('with a scope covers only its ports', () => {
    const scope = new Map([['tcp', [[22, 22]]]] as const);
    const found = indexed([...many(6, (i) => [tcp(20 + i)]), of('all')], { scope });
    assert.deepEqual(lines(found), {
      in: ['meta l4proto tcp goto in-tcp'],
      'in-tcp': ['jump r2', 'jump all'],
    });
  });

  it('is a list if the port before NAT decides', () => {
    const entries = many(6, (i) => [tcp(i)]);
    assert.deepEqual(lines(indexed(entries, { original: true })), {
      in: entries.map(({ chain }) => `jump ${chain}`),
    });
  });
});

describe('port tree, length of the walk', () => {
  const scattered = (length: number): IndexRule[] => many(length, (i) => [tcp((i * 40_503) & 0xff_ff)]);

  it('tries at most 20 rules for 1,000 ports, adjacent or scattered', () => {
    for (const entries of [many(1000, (i) => [tcp(8000 + i)]), scattered(1000)]) {
      const { walked, depth } = longest(indexed(entries), entries, [...ports(23), ...ports(64)]);
      assert.ok(walked <= 20, `${walked} rules`);
      assert.ok(depth <= 10, `${depth} deep`);
    }
  });

  it('grows with the logarithm: at most 25 rules for 10,000 ports', () => {
    const entries = scattered(10_000);
    const { walked } = longest(indexed(entries), entries, ports(67));
    assert.ok(walked <= 25, `${walked} rules`);
  });

  it('stays within the nesting limit of chains, and is as short as that allows', () => {
    const entries = [...scattered(1000), of('all'), of('b', [tcp(80)])];
    const walks = [1, 2, 3, 4, 5, 8].map((levels) => {
      const { walked, depth } = longest(indexed(entries, { levels }), entries, ports(31));
      // The entry chain, that of the protocol and that of the rule; a built-in chain takes one of
      // the levels.
      assert.ok(depth <= 2 + levels - 1 + 1, `${depth} deep of ${levels} levels`);
      return walked;
    });
    assert.deepEqual(
      walks,
      walks.toSorted((a, b) => b - a),
    );
    assert.ok((walks.at(-1) ?? 0) <= 22, `${walks} rules`);
  });

  it('has several trees in sequence if rules without ports would be in too many lists', () => {
    const entries = many(1000, (i) => (i % 50 === 49 ? [] : [tcp(50 * i)]));
    const all = [...entries, of('last', [tcp(7)])];
    for (const levels of [3, 4, 5]) {
      const { depth } = longest(indexed(all, { levels }), all, ports(250));
      assert.ok(depth <= 2 + levels - 1 + 1, `${depth} deep of ${levels} levels`);
    }
    const found = indexed(all);
    const root = found.chains.find(({ name }) => name === 'in-tcp');
    const jumps = root?.rules.filter(({ statement }) => statement.kind === 'jump') ?? [];
    assert.ok(jumps.length > 1 && jumps.length < 10, `${jumps.length} trees`);
    longest(found, all, ports(25));
  });

  it('stays below 8 times the rules for overlapping ranges', () => {
    for (const length of [40, 400, 4000]) {
      const nested = many(length, (i) => [tcp(i, 20_000 - i)]);
      const found = indexed(nested);
      const lists = found.chains
        .flatMap(({ rules }) => rules)
        .filter(({ statement }) => statement.kind === 'jump');
      assert.ok(lists.length <= 8 * length + length, `${lists.length}`);
      longest(found, nested, [0, 1, length >> 1, length, 10_000, 20_000, 20_001]);
    }
  });

  it('takes less than quadratic time for 10,000 rules, on distinct ports or on nested ranges', function () {
    this.timeout(60_000);
    for (const entries of [scattered(10_000), many(10_000, (i) => [tcp(i, 30_000 - i)])]) {
      const before = process.cpuUsage().user;
      indexed(entries);
      const took = (process.cpuUsage().user - before) / 1000;
      assert.ok(took < 2000, `${took} ms`);
    }
  });
});

describe('port tree, incremental', () => {
  it('is the same object for the same rules', () => {
    const indexer = new TreeIndexer();
    const entries = [...many(50, (i) => [tcp(i)]), of('u', [{ protocol: 'udp' }])];
    const before = indexer.dispatch('in', entries, ANY_TRAFFIC);
    const after = indexer.dispatch('in', [...entries, of('v', [{ protocol: 'udp' }])], ANY_TRAFFIC);
    for (const chain of before.chains.filter(({ name }) => name.startsWith('in-tcp')))
      assert.ok(after.chains.includes(chain), chain.name);
    assert.ok(!after.chains.includes(before.chains.find(({ name }) => name === 'in-udp') as never));
  });

  it('one more rule keeps nearly all chains, for any port', () => {
    const entries = many(1000, (i) => [tcp(64 * i)]);
    const names = (found: Dispatched): string[] => found.chains.map(({ name }) => name);
    const before = new Set(names(indexed(entries)));
    const added = Array.from({ length: 20 }, (_, i) => {
      const now = names(indexed([...entries, of('new', [tcp(i * 3001 + 7)])]));
      return now.filter((name) => !before.has(name)).length;
    });
    const mean = added.reduce((a, b) => a + b) / added.length;
    assert.ok(mean < before.size / 4, `${mean} of ${before.size}`);
  });

  it('property: tries exactly the rules that can match, and equals a new tree after any changes', function () {
    check(this, 200, fc.array(anyEntries, { minLength: 1, maxLength: 4 }), (states) => {
      const indexer = new TreeIndexer();
      for (const entries of states) {
        const found = indexer.dispatch('in', entries, ANY_TRAFFIC);
        assert.deepEqual(found, indexed(entries));
        longest(found, entries, ports(1).slice(0, 110));
      }
    });
  });
});

const anyEntries: fc.Arbitrary<IndexRule[]> = fc
  .array(
    fc.oneof(
      fc.constant([]),
      fc.array(
        fc
          .tuple(fc.nat(60), fc.constantFrom(0, 0, 1, 5, 40))
          .map(([first, more]) => tcp(first, first + more)),
        { minLength: 1, maxLength: 3 },
      ),
    ),
    { maxLength: 60 },
  )
  .map((all) => all.map((services, i) => of(`r${i}`, services)));
