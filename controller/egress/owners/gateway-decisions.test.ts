import assert from 'node:assert/strict';
import type { EgressGatewayStatus } from '../../../apis/egress/objects.ts';
import { LatestAddresses } from './gateway-decisions.ts';

const status = (node: string, ...holders: string[]): EgressGatewayStatus => ({
  nodes: [],
  slots: [{ name: '0', node, epoch: 1, addresses: holders.map((_, i) => `192.0.2.${i}`) }],
  addresses: holders.map((policy, i) => ({ address: `192.0.2.${i}`, policy })),
});

describe('the latest addresses of a gateway', () => {
  let latest: LatestAddresses;
  beforeEach(() => {
    latest = new LatestAddresses();
  });

  it('are those that were decided, with the owners of the API', () => {
    assert.equal(latest.of('g', null), null);
    latest.decided('g', status('n1', 'a'));
    assert.deepEqual(latest.of('g', null), status('n1', 'a'));
    latest.decided('g', status('n1', 'a', 'b'));
    assert.deepEqual(latest.of('g', status('n2', 'a')), status('n2', 'a', 'b'));
    const seen = status('n2', 'a', 'b');
    assert.equal(latest.of('g', seen), seen);
  });

  it('are those of the API where somebody else wrote them, and for another gateway', () => {
    latest.of('g', null);
    latest.decided('g', status('n1', 'a'));
    assert.equal(latest.of('h', null), null);
    const foreign = status('n1', 'z');
    assert.equal(latest.of('g', foreign), foreign);
    latest.decided('g', status('n1', 'a'));
    latest.keep(new Set(['h']));
    assert.equal(latest.of('g', null), null);
  });
});
