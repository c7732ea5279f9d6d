import assert from 'node:assert/strict';
import { gatewayReady } from './egress-status.ts';

describe('the status of an egress gateway', () => {
  it('says how many of its nodes are ready', () => {
    const nodes = ['a', 'b'].map((name) => ({ name, ready: name === 'a' }));
    const said = [nodes, nodes.slice(1), []].map(gatewayReady);
    assert.deepEqual(
      said.map(({ status, reason, message }) => [status, reason, message]),
      [
        ['True', 'NodesReady', '1 of 2 nodes are ready.'],
        ['False', 'NoReadyNode', '0 of 1 nodes are ready.'],
        ['False', 'NoNodes', '0 of 0 nodes are ready.'],
      ],
    );
  });
});
