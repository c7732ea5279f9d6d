import assert from 'node:assert/strict';
import { item, items } from '../../test/fake/node-state.ts';
import { buildIndex, type Dispatched, type LookupFields } from '../render/index/build.ts';
import type { MatchEntry } from '../render/index/match-entry.ts';
import { planned } from '../render/index/planner.ts';
import { aimAt, IndexWalk } from './index-walk.ts';

const TCP: LookupFields = { protocol: 'tcp', original: false, address: 'saddr' };

function built(given: readonly MatchEntry[]): Dispatched {
  return buildIndex('in', planned(given, { ports: true }).plan, TCP);
}

/** The number of rules that a packet aimed at each rule is tested against. */
function tries(given: readonly MatchEntry[], ends = true): (number | null)[] {
  const walk = new IndexWalk(built(given), given);
  return given.map((one) => {
    const packet = aimAt(one);
    return packet === null ? null : walk.tested(packet, ends ? one : null).length;
  });
}

const address = (i: number): string => `10.0.0.${i}`;

describe('a packet aimed at a rule', () => {
  it('is from its first peer, IPv4 before IPv6, to its first port', () => {
    const aimed = aimAt(item('a', { from: ['fd00::1', '10.0.0.9', '10.0.0.7'], ports: [443, 8080] }));
    assert.deepEqual(aimed, { address: { family: 4, value: 0x0a000007n }, port: 443, sourcePort: 0 });
    assert.equal(aimAt(item('a', { from: ['fd00::1'] }))?.address.family, 6);
    assert.deepEqual(aimAt(item('a', { from: ['10.0.0.0/8'] }))?.address.value, 0x0a000000n);
  });

  it('has no peer and no port if the rule is for all of them, and does not exist if no address is a peer', () => {
    assert.deepEqual(aimAt(item('a')), { address: { family: 4, value: 0n }, port: 0, sourcePort: 0 });
    assert.equal(aimAt(item('a', { from: [] })), null);
  });
});

describe('walking an index', () => {
  it('counts the rules of a list up to the one that ends the evaluation', () => {
    assert.deepEqual(tries(items(3, (i) => ({ ports: [i + 1] }))), [1, 2, 3]);
  });

  it('continues after a rule that does not end the evaluation', () => {
    const given = [item('audit', { final: false }), item('a', { ports: [80] })];
    assert.deepEqual(tries(given, false), [2, 2]);
    assert.deepEqual(tries(given), [1, 2]);
  });

  it('finds single ports and ranges, and misses their neighbours', () => {
    const given = [
      ...items(5, (i) => ({ ports: [i + 1] })),
      item('range', { ports: [[1000, 2000]] }),
      item('rest', { final: false }),
    ];
    assert.deepEqual(tries(given), [1, 1, 1, 1, 1, 1, 1]);
  });

  it('finds addresses of both families, single and in prefixes', () => {
    const given = [
      ...items(5, (i) => ({ from: [address(i)] })),
      item('net', { from: ['10.1.0.0/16'] }),
      item('v6', { from: ['fd00::1'] }),
      item('net6', { from: ['fd01::/16'] }),
      item('nobody', { from: [] }),
    ];
    assert.deepEqual(tries(given), [1, 1, 1, 1, 1, 1, 1, 1, null]);
  });

  it('a packet between the elements of a map matches none', () => {
    const given = items(5, (i) => ({ ports: [10 * i], from: [`10.${i}.0.0/16`] }));
    const byPort = new IndexWalk(built(given), given);
    const at = (port: number, value: bigint): number =>
      byPort.tested({ address: { family: 4, value }, port, sourcePort: 0 }).length;
    assert.deepEqual([at(10, 0x0a010000n), at(15, 0x0a010000n), at(65_535, 0n)], [1, 0, 0]);
    const sources = given.map((one) => ({ ...one, ranges: null }));
    const byAddress = new IndexWalk(built(sources), sources);
    const from = (value: bigint): number =>
      byAddress.tested({ address: { family: 4, value }, port: 0, sourcePort: 0 }).length;
    assert.deepEqual(
      [from(0x09ffffffn), from(0x0a000000n), from(0x0a04ffffn), from(0x0a050000n)],
      [0, 1, 1, 0],
    );
  });
});

describe('lookups of an index', () => {
  const lookups = (given: readonly MatchEntry[]): number => new IndexWalk(built(given), given).lookups;

  it('are none in a list, one in a map, two with ranges', () => {
    assert.equal(lookups(items(3, (i) => ({ ports: [i] }))), 0);
    assert.equal(lookups(items(5, (i) => ({ ports: [i] }))), 1);
    assert.equal(lookups(items(5, (i) => ({ ports: i === 4 ? [[100, 200]] : [i] }))), 2);
  });

  it('of a packet are those of its family', () => {
    const given = items(6, (i) => ({ from: [address(i), `fd00::${i}`, `10.${i + 1}.0.0/16`] }));
    assert.equal(built(given).maps.length, 3);
    assert.equal(lookups(given), 2);
  });

  it('in sequence add up', () => {
    const given = Array.from({ length: 6 }, (_, n) =>
      items(8, (i) => ({ from: [address(n)], ports: [i + 1] })).map((one, i) => ({
        ...one,
        chain: `rule${n}-${i}`,
        peers: one.peers && { ...one.peers, key: `peers ${n}` },
      })),
    ).flat();
    assert.equal(lookups(given), 2);
  });
});
