import assert from 'node:assert/strict';
import type { Node } from '../../apis/objects.ts';
import { tunnelEnds } from './tunnel-ends.ts';

function networksOf(...podCIDRs: readonly (readonly string[])[]): (readonly string[] | undefined)[] {
  const nodes = podCIDRs.map(
    (own, i) =>
      ({ name: `node-${i}`, internalAddresses: [`192.0.2.${i}`], podCIDRs: own }) as unknown as Node,
  );
  return [...tunnelEnds(nodes).values()].map(({ networks }) => networks);
}

describe('the key of a tunnel’s end', () => {
  it('is that of the Node, or not known; an end in clear has none', () => {
    const nodes = ['one', undefined].map(
      (tunnelKey, i) =>
        ({ name: `node-${i}`, internalAddresses: [`192.0.2.${i}`], tunnelKey }) as unknown as Node,
    );
    const keysOf = (encryption: 'None' | 'WireGuard') =>
      [...tunnelEnds(nodes, new Set(), encryption).values()].map(({ key }) => key);
    assert.deepEqual(keysOf('WireGuard'), ['one', '']);
    assert.deepEqual(keysOf('None'), [undefined, undefined]);
  });
});

describe('the networks of a tunnel’s end', () => {
  it('are the Node’s pod networks', () => {
    const own = [['10.0.1.0/24', 'fd00:1::/64'], ['10.0.0.0/24']];
    assert.deepEqual(networksOf(...own, []), [...own, undefined]);
  });

  it('are none that overlap another’s, that are wrong or single addresses', () => {
    assert.deepEqual(
      networksOf(
        ['10.0.0.0/16', '10.9.0.0/24'],
        ['10.0.1.0/24', '10.8.0.0/24'],
        ['10.0.2.0/25'],
        ['10.9.0.0/24', 'nonsense', '10.7.0.1/32'],
        ['10.1.0.0/16'],
      ),
      [undefined, ['10.8.0.0/24'], undefined, undefined, ['10.1.0.0/16']],
    );
  });
});
