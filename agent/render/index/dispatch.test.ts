import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { CompiledRule, PortMatch } from '../../../apis/compiled.ts';
import { compiledRule, peersOf } from '../../../test/fake/node-state.ts';
import { check } from '../../../test/properties/runs.ts';
import { chainLines, mapLines } from '../nft-text.ts';
import type { Dispatched } from './build.ts';
import { type BuiltPart, type DispatchOptions, Indexer, linearDispatch } from './dispatch.ts';
import type { IndexRule, Peers } from './match-entry.ts';

const ANY_TRAFFIC: DispatchOptions = { original: false, address: 'saddr', scope: null };

function indexed(entries: readonly IndexRule[], options: Partial<DispatchOptions> = {}): Dispatched {
  return new Indexer().dispatch('in', entries, { ...ANY_TRAFFIC, ...options });
}

function entry(chain: string, ...services: PortMatch[]): IndexRule {
  return { chain, rule: compiledRule(chain, { services }), peers: null };
}

function of(
  chain: string,
  changes: Partial<Omit<CompiledRule, 'source'>>,
  peers: Peers | null = null,
): IndexRule {
  return { chain, rule: compiledRule(chain, changes), peers };
}

const tcp = (first: number, last = first): PortMatch => ({ protocol: 'tcp', ports: [first, last] });
/** More entries than are tried one by one. */
const many = (...more: readonly IndexRule[]): IndexRule[] => [
  ...[1, 2, 3, 4, 5].map((port) => entry(`p${port}`, tcp(port))),
  ...more,
];

function lines({ chains }: Dispatched): Record<string, string[]> {
  const short = (text: string): string => text.replaceAll(/-[0-9a-f]{10}\b/g, '-#');
  return Object.fromEntries(chains.map((chain) => [short(chain.name), chainLines(chain).map(short)]));
}

function elements({ maps }: Dispatched): string[] {
  return maps.map((map) => (mapLines(map, true).at(-1) ?? '').replace(/^elements = \{ (.*) \}$/, '$1'));
}

describe('dispatch', () => {
  it('linear tries every rule in order', () => {
    const { chains, maps } = linearDispatch('in', [entry('a', tcp(80)), entry('b')], ANY_TRAFFIC);
    assert.deepEqual(chains.map(chainLines), [['jump a', 'jump b']]);
    assert.deepEqual(maps, []);
  });

  it('for no rules is an empty chain', () => {
    assert.deepEqual(lines(indexed([])), { in: [] });
  });

  it('looks up the protocol, then the map', () => {
    const found = indexed(many());
    assert.deepEqual(lines(found), {
      in: ['meta l4proto tcp goto in-tcp'],
      'in-tcp': ['th dport vmap @in-tcp-ports'],
    });
    assert.deepEqual(elements(found), ['1 : jump p1, 2 : jump p2, 3 : jump p3, 4 : jump p4, 5 : jump p5']);
  });

  it('a protocol with only rules for all protocols needs no chain', () => {
    const found = lines(indexed([entry('any'), entry('a', { protocol: 'udp', ports: [53, 53] })]));
    assert.deepEqual(found, {
      in: ['meta l4proto udp goto in-udp', 'jump any'],
      // `any` matches every packet and ends evaluation.
      'in-udp': ['jump any'],
    });
  });

  it('tries rules without ports or protocols for every protocol, in their order', () => {
    const audit = of('audit', { mode: 'Audit' });
    const found = lines(indexed([entry('a', tcp(80)), audit, entry('b', tcp(443)), entry('last')]));
    assert.deepEqual(found.in, ['meta l4proto tcp goto in-tcp', 'jump audit', 'jump last']);
    assert.deepEqual(found['in-tcp'], ['jump a', 'jump audit', 'jump b', 'jump last']);
  });

  it('a source port, or only a protocol, applies to every port; a source port does not end the evaluation', () => {
    const source: PortMatch = { protocol: 'tcp', sourcePorts: [53, 53] };
    const found = lines(indexed([entry('a', source), entry('b', { protocol: 'tcp' }), entry('c', tcp(1))]));
    assert.deepEqual(found['in-tcp'], ['jump a', 'jump b']);
  });

  it('gives ICMP and IGMP a chain only if a rule names them; a type does not end the evaluation', () => {
    const found = lines(indexed([entry('a', { protocol: 'icmpv6', type: 128 }), entry('any')]));
    assert.deepEqual(found['in-icmpv6'], ['jump a', 'jump any']);
    assert.equal(found['in-icmp'], undefined);
    const typeless = lines(indexed([entry('a', { protocol: 'icmp' }), entry('any')]));
    assert.deepEqual(typeless['in-icmp'], ['jump a'], 'all of ICMP ends there');
  });

  it('an interface group does not end the evaluation: the index does not test it', () => {
    const found = lines(
      indexed([of('a', { peers: [{ kind: 'interfaces', groups: ['pods'] }] }), entry('b')]),
    );
    assert.deepEqual(found.in, ['jump a', 'jump b']);
  });

  it('a rule for Services is tried for every packet of a protocol with ports, and does not end the evaluation', () => {
    const found = lines(indexed([of('s', { peers: [{ kind: 'services', set: 'x' }] }), entry('a', tcp(80))]));
    assert.deepEqual(found, {
      in: ['meta l4proto tcp goto in-tcp', 'meta l4proto udp goto in-udp', 'meta l4proto sctp goto in-sctp'],
      'in-tcp': ['jump s', 'jump a'],
      'in-udp': ['jump s'],
      'in-sctp': ['jump s'],
    });
  });

  it('with a scope covers only its ports, and no other protocols', () => {
    const scope = new Map([['tcp', [[6443, 6443]]]] as const);
    const entries = [entry('a', tcp(80)), entry('b', tcp(6000, 7000)), entry('c', { protocol: 'udp' })];
    assert.deepEqual(lines(indexed(entries, { scope })), {
      in: ['meta l4proto tcp goto in-tcp'],
      'in-tcp': ['jump b'],
    });
  });

  it('with a scope, a rule for all protocols applies to those of the scope only', () => {
    const scope = new Map([['tcp', [[6443, 6443]]]] as const);
    assert.deepEqual(lines(indexed([entry('any')], { scope })), {
      in: ['meta l4proto tcp goto in-tcp'],
      'in-tcp': ['jump any'],
    });
  });

  it('with a scope, a rule for all its ports needs no lookup', () => {
    const scope = new Map([['tcp', [[22, 22]]]] as const);
    const entries = [1, 2, 3, 4, 5].map((i) => entry(`r${i}`, tcp(i, 22 + i)));
    assert.deepEqual(lines(indexed(entries, { scope }))['in-tcp'], ['jump r1']);
  });

  it('uses the port before NAT and the destination if asked to', () => {
    assert.deepEqual(lines(indexed(many(), { original: true }))['in-tcp'], [
      'meta l4proto tcp ct original proto-dst vmap @in-tcp-ports',
    ]);
    const peers = [1, 2, 3, 4, 5].map((i) => of(`a${i}`, {}, peersOf(`p${i}`, `10.0.0.${i}`)));
    assert.deepEqual(lines(indexed(peers, { address: 'daddr' })).in, ['ip daddr vmap @in-v4']);
  });
});

describe('indexer', () => {
  it('reports each part that is made once, and again only after a change', () => {
    const told: string[] = [];
    const indexer = new Indexer(({ name, items }: BuiltPart) => told.push(`${name} ${items.length}`));
    const entries = many(entry('any'), entry('u', { protocol: 'udp', ports: [53, 53] }));
    indexer.dispatch('in', entries, ANY_TRAFFIC);
    assert.deepEqual(told.splice(0), ['in-tcp 6', 'in-udp 2', 'in 1']);
    indexer.dispatch('in', entries, ANY_TRAFFIC);
    indexer.dispatch('in', [...entries], ANY_TRAFFIC);
    assert.deepEqual(told.splice(0), []);
    indexer.dispatch('in', entries.toSpliced(2, 1), ANY_TRAFFIC);
    assert.deepEqual(told, ['in-tcp 5']);
  });

  it('reuses the chains of a protocol whose rules are the same', () => {
    const indexer = new Indexer();
    const entries = many(entry('u', { protocol: 'udp', ports: [53, 53] }));
    const before = indexer.dispatch('in', entries, ANY_TRAFFIC);
    const after = indexer.dispatch(
      'in',
      [...entries, entry('v', { protocol: 'udp', ports: [67, 67] })],
      ANY_TRAFFIC,
    );
    const chain = (found: Dispatched, name: string) => found.chains.find((one) => one.name === name);
    assert.equal(chain(before, 'in-tcp'), chain(after, 'in-tcp'));
    assert.notEqual(chain(before, 'in-udp'), chain(after, 'in-udp'));
    assert.equal(before.maps[0], after.maps[0]);
  });

  it('changes the index for new members only if it looks up addresses', () => {
    const indexer = new Indexer();
    const byPort = (...members: readonly string[]): IndexRule[] =>
      many().map((one) => ({ ...one, peers: peersOf('p', ...members) }));
    const first = indexer.dispatch('in', byPort('10.0.0.1'), ANY_TRAFFIC);
    assert.equal(indexer.dispatch('in', byPort('10.0.0.1', '10.0.0.2'), ANY_TRAFFIC).maps[0], first.maps[0]);
    const byAddress = (last: string): IndexRule[] =>
      [1, 2, 3, 4, 5].map((i) => of(`a${i}`, {}, peersOf(`p${i}`, i === 5 ? last : `10.0.0.${i}`)));
    indexer.dispatch('in', byAddress('10.0.0.5'), ANY_TRAFFIC);
    assert.match(
      elements(indexer.dispatch('in', byAddress('10.0.0.6'), ANY_TRAFFIC))[0] ?? '',
      /10\.0\.0\.6 : goto a5/,
    );
  });

  it('an index by port changes with everything of a rule but its members', () => {
    const [p, q] = [peersOf('p', '10.0.0.1'), peersOf('q', '10.0.0.1')];
    const states: readonly IndexRule[][] = [
      many(of('x', { services: [tcp(80)] }, p), of('y', { services: [tcp(80)] }, p)),
      many(of('x', { services: [tcp(80)] }, p), of('y', { services: [tcp(80)] }, q)),
      many(of('x', { services: [tcp(80)], mode: 'Audit' }, p), of('y', { services: [tcp(80)] }, p)),
      many(of('x', { services: [tcp(81)] }, p), of('y', { services: [tcp(80)] }, p)),
    ];
    const made = new Set<string>();
    for (const before of states) {
      for (const after of states) {
        const indexer = new Indexer();
        indexer.dispatch('in', before, ANY_TRAFFIC);
        const found = indexer.dispatch('in', after, ANY_TRAFFIC);
        assert.deepEqual(found, indexed(after));
        made.add(JSON.stringify([lines(found), elements(found)]));
      }
    }
    assert.equal(made.size, 3, 'x alone; x and y, twice; apart');
  });

  it('an edited rule has its new chain everywhere, also in lists for any peer', () => {
    const large = peersOf('large', ...Array.from({ length: 5000 }, (_, i) => `10.1.${i >> 8}.${i & 255}`));
    const before = [
      of('large', {}, large),
      ...[1, 2, 3, 4, 5, 6].map((i) => of(`a${i}`, {}, peersOf(`p${i}`, `10.0.0.${i}`))),
    ];
    const after = before.map((one) => (one.chain === 'large' ? { ...one, chain: 'edited' } : one));
    const indexer = new Indexer();
    indexer.dispatch('in', before, ANY_TRAFFIC);
    const found = indexer.dispatch('in', after, ANY_TRAFFIC);
    assert.deepEqual(found, indexed(after));
    assert.doesNotMatch(JSON.stringify(found.chains), /"large"/);
  });

  it('property: equals a new index after any changes', function () {
    check(this, 150, fc.array(anyEntries, { minLength: 2, maxLength: 4 }), (states) => {
      const indexer = new Indexer();
      for (const entries of states) {
        for (const options of [ANY_TRAFFIC, { ...ANY_TRAFFIC, scope: SCOPE }]) {
          const name = options.scope === null ? 'in' : 'in-failsafe';
          const found = indexer.dispatch(name, entries, options);
          assert.deepEqual(found, new Indexer().dispatch(name, entries, options));
        }
      }
    });
  });
});

const SCOPE: DispatchOptions['scope'] = new Map([['tcp', [[3, 12]]]]);

const POOL: readonly Peers[] = [
  peersOf('a', '10.0.0.1', '10.0.0.2'),
  peersOf('b', '10.0.0.2', '10.0.0.3'),
  peersOf('c', '10.0.0.0/24'),
  peersOf('d', '10.0.0.0/8', 'fd00::1'),
  // The same peers at a time when they had other members.
  peersOf('a', '10.0.0.1'),
  peersOf('d', '10.0.0.0/8', 'fd00::1', 'fd00::2'),
];

/**
 * Equal entries are the same objects, as in an agent; those with equal peers in one state have
 * equal members.
 */
const ENTRIES: readonly IndexRule[] = Array.from({ length: 60 }, (_, i): IndexRule => {
  const services: PortMatch[] =
    i % 7 === 6
      ? []
      : [
          i % 5 === 4
            ? { protocol: 'udp', ports: [i % 3, i % 3] }
            : tcp(i % 11, (i % 11) + (i % 4 === 3 ? 20 : 0)),
        ];
  const mode = i % 13 === 12 ? 'Audit' : 'Enforce';
  return of(`rule${i % 40}`, { services, mode }, i % 3 === 2 ? null : (POOL[i % 4] ?? null));
});

const anyEntries: fc.Arbitrary<IndexRule[]> = fc
  .tuple(fc.subarray([...Array.from(ENTRIES.keys())], { minLength: 4, maxLength: 25 }), fc.boolean())
  .map(([chosen, others]) => {
    const known = new Set<string>();
    return chosen.flatMap((i) => {
      const found = ENTRIES[i];
      if (found === undefined || known.has(found.chain)) return [];
      known.add(found.chain);
      const now = others ? POOL.findLast(({ key }) => key === found.peers?.key) : undefined;
      return now === undefined ? found : { ...found, peers: now };
    });
  });
