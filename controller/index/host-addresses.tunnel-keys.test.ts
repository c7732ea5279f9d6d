import assert from 'node:assert/strict';
import type { Node } from '../../apis/objects.ts';
import { TunnelKeys } from './host-addresses.ts';

const nodes: readonly Node[] = ['a', 'b'].map((name) => ({ kind: 'Node', name, labels: {}, addresses: [] }));

describe('TunnelKeys', () => {
  it('gives each Node its key; what is the same is the same object', () => {
    const keys = new TunnelKeys();
    const objects = { nodes };
    assert.equal(keys.on(objects), objects);
    assert.equal(keys.report('a', 'one'), 'new');
    assert.equal(keys.report('a', 'one'), 'same');
    const first = keys.on(objects);
    assert.deepEqual(
      first.nodes.map(({ tunnelKey }) => tunnelKey),
      ['one', undefined],
    );
    assert.equal(keys.on(objects).nodes, first.nodes);
    keys.report('b', 'two');
    const second = keys.on(objects);
    assert.equal(second.nodes[0], first.nodes[0]);
    assert.equal(second.nodes[1]?.tunnelKey, 'two');
  });

  it('lets nobody have the key of another Node, until that has none', () => {
    const keys = new TunnelKeys();
    keys.report('a', 'one');
    assert.equal(keys.report('b', 'one'), 'taken');
    assert.equal(keys.on({ nodes }).nodes[1]?.tunnelKey, undefined);
    keys.report('b', 'two');
    assert.equal(keys.report('b', 'one'), 'taken');
    assert.equal(keys.on({ nodes }).nodes[1]?.tunnelKey, 'two');
    keys.report('a', null);
    assert.equal(keys.report('b', 'one'), 'new');
    assert.equal(keys.report('a', 'two'), 'new');
  });
});
