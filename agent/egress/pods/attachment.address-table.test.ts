import assert from 'node:assert/strict';
import { BY_ADDRESS, type NodeEgress } from '../../../apis/egress/node-egress.ts';
import { fakeNodeEgress } from '../../../test/fake/egress-objects.ts';
import { movedArrivals, movedSources } from './attachment.ts';

type Classes = Readonly<Record<string, string | null>>;

function node(pods: Classes, sources: Classes): NodeEgress {
  return fakeNodeEgress({ pods: new Map(Object.entries(pods)), sources: new Map(Object.entries(sources)) });
}

const [A, B] = ['10.0.0.1', 'fd00::1'];

describe('addresses that are another pod’s now, by states of the controller', () => {
  const before = node({ x: 'c1', y: 'c1' }, { [A]: 'c1', [B]: 'c1' });

  it('are those that no pod has any more', () => {
    assert.deepEqual(movedSources(before, node({ y: 'c1' }, { [A]: 'c1' })), [B]);
    assert.deepEqual(movedSources(before, before), []);
    assert.deepEqual(movedSources(node({}, {}), before), []);
  });

  it('are those with another class that no pod got, selected or not, in whatever order pods change', () => {
    for (const id of ['c2', null]) {
      const sources = { [A]: id, [B]: 'c1' };
      for (const pods of [
        { y: 'c1', z: id },
        { x: 'c1', y: 'c1', z: id },
      ]) {
        assert.deepEqual(movedSources(before, node(pods, sources)), [A]);
        const after = node(pods, { [A]: 'c1', [B]: 'c1' });
        assert.deepEqual(movedSources(node(pods, sources), after), [A]);
      }
    }
  });

  it('are not those whose policies were edited', () => {
    for (const id of ['c2', null])
      assert.deepEqual(movedSources(before, node({ x: id, y: 'c1' }, { [A]: id, [B]: 'c1' })), []);
    const byAddress = { x: BY_ADDRESS };
    assert.deepEqual(movedSources(node(byAddress, { [A]: 'c1' }), node(byAddress, { [A]: 'c2' })), []);
  });

  it('are at a gateway those that come from another node', () => {
    const served = (name: string, take: number) =>
      fakeNodeEgress({
        arrivals: new Map([[A, { node: name, takes: [{ range: { first: 0n, last: 1n }, take }] }]]),
      });
    assert.deepEqual(movedArrivals(served('n', 1), served('m', 1)), [A]);
    assert.deepEqual(movedArrivals(served('n', 1), served('n', 2)), []);
    assert.deepEqual(movedArrivals(served('n', 1), fakeNodeEgress()), []);
  });
});
