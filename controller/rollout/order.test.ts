import assert from 'node:assert/strict';
import fc from 'fast-check';
import { EVERY_PLACE, type RolloutShare } from '../../apis/rollout.ts';
import { placeInRollout, type RolloutNode, rolloutOrder, shareOf, stepSizes, takesPart } from './order.ts';

const NOBODY: RolloutShare = { through: '', firsts: [] };

function node(name: string, zone = ''): RolloutNode {
  return { name, zone, place: placeInRollout(name, 'uid') };
}

const anyNodes = fc
  .uniqueArray(fc.tuple(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 0, max: 4 })), {
    selector: ([name]) => name,
    maxLength: 40,
  })
  .map((list) => list.map(([name, zone]) => node(`n${name}`, `z${zone}`)));

const namesIn = (nodes: readonly RolloutNode[], share: RolloutShare): string[] =>
  nodes.flatMap(({ name, place }) => (takesPart(share, name, place) ? [name] : [])).sort();

describe('the order of a rollout', () => {
  it('has one node of each failure domain first', () => {
    fc.assert(
      fc.property(anyNodes, (nodes) => {
        const zones = new Set(nodes.map(({ zone }) => zone));
        const order = rolloutOrder(nodes, NOBODY);
        assert.equal(new Set(order.slice(0, zones.size).map(({ zone }) => zone)).size, zones.size);
        assert.deepEqual(new Set(order), new Set(nodes));
      }),
    );
  });

  it('does not depend on the order of the nodes, and is another one for another policy', () => {
    const nodes = Array.from({ length: 30 }, (_, i) => node(`n${i}`));
    assert.deepEqual(rolloutOrder(nodes.toReversed(), NOBODY), rolloutOrder(nodes, NOBODY));
    const others = nodes.map((one) => ({ ...one, place: placeInRollout(one.name, 'other') }));
    const names = (list: readonly RolloutNode[]) => rolloutOrder(list, NOBODY).map(({ name }) => name);
    assert.notDeepEqual(names(others), names(nodes));
  });

  it('is cut after a step: exactly the first nodes take part', () => {
    fc.assert(
      fc.property(anyNodes, fc.nat(45), (nodes, count) => {
        const order = rolloutOrder(nodes, NOBODY);
        const first = order.slice(0, count).map(({ name }) => name);
        assert.deepEqual(namesIn(nodes, shareOf(order, count)), first.sort());
      }),
    );
  });

  it('keeps the place of a node that took part, whoever comes, goes, and changes its zone', () => {
    fc.assert(
      fc.property(anyNodes, anyNodes, fc.nat(40), fc.nat(40), (before, after, first, more) => {
        const share = shareOf(rolloutOrder(before, NOBODY), first);
        const had = namesIn(before, share);
        const kept = after.filter(({ name }) => had.includes(name));
        const now = namesIn(after, share);
        for (const { name } of kept) assert.ok(now.includes(name));
        const next = shareOf(rolloutOrder(after, share), Math.max(more, now.length));
        for (const name of now) assert.ok(namesIn(after, next).includes(name));
      }),
    );
  });

  it('ends with all nodes, later ones too', () => {
    const order = rolloutOrder([node('a'), node('b')], NOBODY);
    assert.deepEqual(shareOf(order, 2), { through: EVERY_PLACE, firsts: [] });
    assert.ok(takesPart(shareOf(order, 5), 'c', placeInRollout('c', 'uid')));
    assert.ok(!takesPart(shareOf(order, 0), 'a', placeInRollout('a', 'uid')));
  });
});

describe('the sizes of steps', () => {
  it('are rounded up, no more than there are nodes, and end with all', () => {
    assert.deepEqual(stepSizes([1, '5%', '25%', '100%'], 200), [1, 10, 50, 200]);
    assert.deepEqual(stepSizes([1, '5%', '25%', '100%'], 3), [1, 1, 1, 3]);
    assert.deepEqual(stepSizes([2, '50%'], 10), [2, 5, 10]);
    assert.deepEqual(stepSizes([5], 3), [3, 3]);
    assert.deepEqual(stepSizes([1, '100%'], 0), [0, 0]);
  });
});
