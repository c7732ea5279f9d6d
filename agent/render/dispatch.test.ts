import assert from 'node:assert/strict';
import type { Service } from '../../apis/compiled.ts';
import { compiledRule } from '../../test/fake/compiledrule.ts';
import { type Entry, indexedDispatch, linearDispatch } from './dispatch.ts';
import { chainLines, mapLines } from './nfttext.ts';

/** The index reads nothing of a rule but its services. */
function entry(chain: string, ...services: Service[]): Entry {
  return { chain, rule: compiledRule(chain, { services }) };
}

const tcp = (first: number, last = first): Service => ({ protocol: 'tcp', ports: [first, last] });

function lines(
  entries: readonly Entry[],
  scope?: Parameters<typeof indexedDispatch>[2],
): Record<string, string[]> {
  const { chains } = indexedDispatch('in', entries, scope);
  return Object.fromEntries(
    chains.map((chain) => [
      chain.name.replace(/-[0-9a-f]{10}$/, ''),
      chainLines(chain).map((line) => line.replace(/-[0-9a-f]{10}$/, '')),
    ]),
  );
}

function elements(entries: readonly Entry[]): string[] {
  return indexedDispatch('in', entries).maps.map((map) =>
    (mapLines(map, true)[1] ?? '').replace(/^elements = \{ (.*) \}$/, '$1'),
  );
}

describe('dispatch', () => {
  it('linear tries every rule in order', () => {
    const { chains, maps } = linearDispatch('in', [entry('a', tcp(80)), entry('b')]);
    assert.deepEqual(chains.map(chainLines), [['jump a', 'jump b']]);
    assert.deepEqual(maps, []);
  });

  it('of nothing is an empty chain', () => {
    assert.deepEqual(lines([]), { in: [] });
  });

  it('looks a single port up, and goes straight to its rule', () => {
    const entries = [entry('a', tcp(80)), entry('b', tcp(443))];
    assert.deepEqual(lines(entries), {
      in: ['meta l4proto tcp goto in-tcp'],
      'in-tcp': ['tcp dport vmap @in-tcp-ports'],
    });
    assert.deepEqual(elements(entries), ['80 : jump a, 443 : jump b']);
  });

  it('tries rules without ports where they stand, for every protocol', () => {
    const entries = [entry('a', tcp(80)), entry('any'), entry('b', tcp(80)), entry('last')];
    const { in: all, 'in-tcp': ofTcp } = lines(entries);
    assert.deepEqual(all?.slice(-2), ['jump any', 'jump last']);
    assert.deepEqual(ofTcp, [
      'tcp dport vmap @in-tcp-ports',
      'jump any',
      'tcp dport vmap @in-tcp-ports',
      'jump last',
    ]);
    assert.deepEqual(elements(entries), ['80 : jump a', '80 : jump b']);
  });

  it('lists the rules that share a port, in order', () => {
    const { 'in-tcp-list': list } = lines([entry('a', tcp(79, 80)), entry('b', tcp(80, 81))]);
    assert.deepEqual(list, ['jump a', 'jump b']);
    const [ports = ''] = elements([entry('a', tcp(79, 80)), entry('b', tcp(80, 81))]);
    assert.match(ports, /^79 : jump a, 80 : jump in-tcp-list-\w+, 81 : jump b$/);
  });

  it('puts a wide range in an interval map of its own, in a chain that stays', () => {
    const { chains } = indexedDispatch('in', [entry('a', tcp(1000, 1016))]);
    const ranges = chains.find(({ name }) => name.startsWith('in-tcp-ranges-'));
    assert.deepEqual(ranges && chainLines(ranges), ['tcp dport vmap { 1000-1016 : jump a }']);
    assert.equal(ranges?.fixed, true);
    assert.deepEqual(indexedDispatch('in', [entry('a', tcp(1000, 1015))]).maps[0]?.entries.size, 16);
  });

  it('tries a source port, or a protocol alone, for every port', () => {
    const source: Service = { protocol: 'tcp', sourcePorts: [53, 53] };
    assert.deepEqual(lines([entry('a', source), entry('b', { protocol: 'tcp' })])['in-tcp'], [
      'jump a',
      'jump b',
    ]);
  });

  it('gives ICMP and IGMP a chain only where a rule names them', () => {
    const found = lines([entry('a', { protocol: 'icmpv6', type: 128 }), entry('any')]);
    assert.deepEqual(found['in-icmpv6'], ['jump a', 'jump any']);
    assert.equal(found['in-icmp'], undefined);
  });

  it('with a scope knows only its ports', () => {
    const scope = new Map([['tcp', [[6443, 6443]]]] as const);
    const entries = [entry('a', tcp(80)), entry('b', tcp(6000, 7000)), entry('c', { protocol: 'udp' })];
    assert.deepEqual(lines(entries, { scope }), {
      in: ['meta l4proto tcp goto in-tcp'],
      'in-tcp': ['jump b'],
    });
  });

  it('tries a rule for services for every packet that has ports', () => {
    const rule = compiledRule('s', { serviceSets: ['x'] });
    assert.deepEqual(lines([{ chain: 's', rule }, entry('a', tcp(80))]), {
      in: ['meta l4proto tcp goto in-tcp', 'meta l4proto udp goto in-udp', 'meta l4proto sctp goto in-sctp'],
      'in-tcp': ['jump s', 'tcp dport vmap @in-tcp-ports'],
      'in-udp': ['jump s'],
      'in-sctp': ['jump s'],
    });
  });

  it('goes by the port that the client used where that is asked for', () => {
    const found = lines([entry('a', tcp(80)), entry('b', tcp(100, 200))], { original: true });
    assert.deepEqual(found['in-tcp'], [
      'meta l4proto tcp ct original proto-dst vmap @in-tcp-ports',
      'jump in-tcp-ranges',
    ]);
    assert.deepEqual(found['in-tcp-ranges'], [
      'meta l4proto tcp ct original proto-dst vmap { 100-200 : jump b }',
    ]);
  });
});
