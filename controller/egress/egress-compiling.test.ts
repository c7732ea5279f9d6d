import assert from 'node:assert/strict';
import { DEFAULT_EGRESS_CONFIG } from '../../apis/egress/config.ts';
import { finish } from '../../lib/sharing/stepwise.ts';
import { egressInput, fakeGateway, fakeNode, fakePod, fakePolicy } from '../../test/fake/egress-objects.ts';
import type { Snapshot } from '../watch/source.ts';
import { EgressCompiling, type PublishedEgress } from './egress-compiling.ts';

const OBJECTS = egressInput({
  nodes: [fakeNode('w', ['192.0.2.1'], { podCIDRs: ['10.244.0.0/24'] })],
  namespaces: [{ kind: 'Namespace', name: 'shop', labels: {} }],
  pods: [fakePod('shop/p', ['10.244.0.7'], { node: 'w' })],
  egressGateways: [fakeGateway('g', { source: 'Node', default: true })],
  egressPolicies: [fakePolicy('shop/p')],
});
const SNAPSHOT = { objects: OBJECTS, problems: [] } as unknown as Snapshot;

describe('egress gateways in a controller', () => {
  let said: string[];
  let published: PublishedEgress[];
  const start = (nodeCIDRs: readonly string[] = []) =>
    new EgressCompiling({
      config: { ...DEFAULT_EGRESS_CONFIG, podCIDRs: nodeCIDRs },
      nodeCIDRs,
      published: (state) => void published.push(state),
      log: { warn: (message: string) => said.push(message) } as never,
    });
  beforeEach(() => {
    [said, published] = [[], []];
  });

  it('tell statuses and the log of a state when it is published, not before', () => {
    const compiling = start(['198.51.100.0/24']);
    const one = finish(compiling.compile(OBJECTS as never));
    assert.deepEqual([said, published], [[], []]);
    assert.ok(one.ignoredNetworks > 0);
    one.published(SNAPSHOT);
    assert.deepEqual(
      published.map(({ nodes, policies }) => [nodes, policies]),
      [[one.part.egress, OBJECTS.egressPolicies]],
    );
    assert.equal(said.length, 1);
    one.published(SNAPSHOT);
    assert.equal(said.length, 1, 'once');
  });

  it('make the same objects again where nothing is different, and all of them after a restart', () => {
    const compiling = start();
    const parts = [0, 1].map(() => finish(compiling.compile(OBJECTS as never)).part.egress?.get('w'));
    assert.equal(parts[0], parts[1]);
    compiling.restart();
    const again = finish(compiling.compile(OBJECTS as never)).part.egress?.get('w');
    assert.notEqual(again, parts[0]);
    assert.deepEqual(again, parts[0]);
  });
});
