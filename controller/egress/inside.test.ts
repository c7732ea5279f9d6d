import assert from 'node:assert/strict';
import { DEFAULT_EGRESS_CONFIG } from '../../apis/egress/config.ts';
import type { InsideNetworks } from '../../apis/egress/objects.ts';
import { egressInput, fakeGateway, fakeNode, fakePod, fakePolicy } from '../../test/fake/egress-objects.ts';
import { compileEgress, type EgressInput, type EgressSettings, egressCompiler } from './compile-egress.ts';
import { egressExplainer } from './decide.ts';
import { nodeEgressCompiler } from './node-egress.ts';

const CONFIG: EgressSettings = DEFAULT_EGRESS_CONFIG;
/** Everything outside is dropped. */
const SHUT = fakePolicy('shut', { action: 'Drop' });
const PAY = fakePod('shop/pay', ['10.244.1.10', 'fd00::1:10'], { node: 'w' });
const W = fakeNode('w', ['192.0.2.1', 'fd01::1'], { podCIDRs: ['10.244.1.0/24', 'fd00::1:0/112'] });

function cluster(more: Partial<EgressInput>): EgressInput {
  const { nodes = [], pods = [], ...rest } = more;
  return egressInput({ egressPolicies: [SHUT], ...rest, nodes: [W, ...nodes], pods: [PAY, ...pods] });
}

function reasonOf(objects: EgressInput, dst: string, config = CONFIG): string {
  return egressExplainer(objects, compileEgress(objects, config))({ traffic: 'Egress', pod: 'shop/pay', dst })
    .reason;
}

describe('what Nodes and pods say of themselves', () => {
  const CLAIMS: Readonly<Record<string, readonly [Partial<EgressInput>, readonly string[]]>> = {
    'a pod network that is everything': [
      { nodes: [fakeNode('evil', ['192.0.2.9'], { podCIDRs: ['0.0.0.0/0', '::/0'] })] },
      ['198.51.100.1', '2001:db8::1'],
    ],
    'a pod network that is wider than private networks': [
      { nodes: [fakeNode('evil', ['192.0.2.9'], { podCIDRs: ['10.0.0.0/7', 'f800::/5'] })] },
      ['11.0.0.1', 'fa00::1'],
    ],
    'the address of a pod': [
      { pods: [fakePod('evil/p', ['198.51.100.1', '2001:db8::1'], { node: 'w' })] },
      ['198.51.100.1', '2001:db8::1'],
    ],
    'an address that the agent reports': [
      { nodes: [fakeNode('evil', ['192.0.2.9'], { reportedAddresses: ['198.51.100.1', '2001:db8::1'] })] },
      ['198.51.100.1', '2001:db8::1'],
    ],
  };
  for (const [what, [objects, destinations]] of Object.entries(CLAIMS)) {
    it(`does not make a destination on the Internet inside: ${what}`, () => {
      for (const dst of destinations) {
        assert.equal(reasonOf(cluster(objects), dst), 'policy', dst);
        const named = { ...CONFIG, inside: ['198.51.100.0/24', '11.0.0.0/8', '2001:db8::/32', 'f800::/5'] };
        assert.equal(reasonOf(cluster(objects), dst, named), 'inside', `${dst} in egress.inside`);
      }
    });
  }

  it('counts within private networks, and only within egress.podCIDRs where they are set', () => {
    const objects = cluster({ pods: [fakePod('shop/p', ['10.9.0.1', 'fd09::1'], { node: 'w' })] });
    for (const dst of ['10.244.1.99', '10.9.0.1', 'fd00::1:99', 'fd09::1'])
      assert.equal(reasonOf(objects, dst), 'inside', dst);
    const set = { ...CONFIG, podCIDRs: ['10.244.0.0/16', 'fd00::/64'] };
    for (const dst of ['10.244.1.99', '10.244.200.1', 'fd00::1:99'])
      assert.equal(reasonOf(objects, dst, set), 'inside', dst);
    for (const dst of ['10.9.0.1', 'fd09::1']) assert.equal(reasonOf(objects, dst, set), 'policy', dst);
    const pool: InsideNetworks = { kind: 'IPPool', name: 'p', cidrs: ['10.9.0.0/16', 'fd09::/64'] };
    const pools = { ...objects, insideNetworks: [pool] };
    for (const dst of ['10.9.0.1', 'fd09::1']) assert.equal(reasonOf(pools, dst, set), 'inside', dst);
  });

  it('counts within nodeCIDRs, of addresses that agents report', () => {
    const evil = fakeNode('n', ['192.0.2.9'], { reportedAddresses: ['192.0.2.77'] });
    const objects = cluster({ nodes: [evil] });
    assert.equal(reasonOf(objects, '192.0.2.77'), 'policy');
    assert.equal(reasonOf(objects, '192.0.2.77', { ...CONFIG, nodeCIDRs: ['192.0.2.0/24'] }), 'inside');
    assert.equal(reasonOf(objects, '192.0.2.9'), 'inside', 'an address of the Node object');
  });

  it('is served by no gateway, whose answers would go to the pod’s node', () => {
    const stray = fakePod('evil/p', ['198.51.100.1', '10.9.0.1'], { node: 'w' });
    for (const whenUnavailable of ['Drop', 'Direct'] as const) {
      const objects = cluster({
        pods: [stray],
        nodes: [fakeNode('g', ['192.0.2.7'])],
        egressGateways: [fakeGateway('g', { source: 'Node', default: true })],
        egressPolicies: [fakePolicy('all', { whenUnavailable })],
      });
      const compiled = compileEgress(objects, CONFIG);
      const explain = egressExplainer(objects, compiled);
      const found = (src: string) => {
        const { verdict, reason } = explain({ traffic: 'Egress', src, dst: '203.0.113.1' });
        return `${verdict} ${reason}`;
      };
      assert.deepEqual(['198.51.100.1', '10.9.0.1'].map(found), [
        `${whenUnavailable} no-route`,
        'Gateway policy',
      ]);
      const gateway = nodeEgressCompiler()(compiled).get('g');
      assert.deepEqual([...(gateway?.arrivals.keys() ?? [])].toSorted(), ['10.244.1.10', '10.9.0.1']);
    }
  });

  it('is listed where it does not count, state after state', () => {
    const compile = egressCompiler(CONFIG);
    const leftOut = (objects: EgressInput) => [...compile(objects).inside.leftOut];
    const evil = fakeNode('evil', ['192.0.2.9'], { podCIDRs: ['0.0.0.0/0', '10.244.9.0/24'] });
    const stray = fakePod('evil/p', ['198.51.100.1'], { node: 'w' });
    assert.deepEqual(leftOut(cluster({})), []);
    assert.deepEqual(leftOut(cluster({ nodes: [evil] })), ['0.0.0.0/0']);
    const both = cluster({ nodes: [evil], pods: [stray] });
    assert.deepEqual(leftOut(both), ['0.0.0.0/0', '198.51.100.1']);
    assert.deepEqual(leftOut({ ...both, pods: [PAY] }), ['0.0.0.0/0']);
    assert.deepEqual(leftOut(cluster({})), []);
  });

  it('gives an address of several pods to the pod of the Node whose network has it', () => {
    const own = fakePolicy('a/own', { action: 'Direct' });
    const evil = fakeNode('evil', ['192.0.2.9'], { podCIDRs: ['10.244.9.0/24'] });
    const thief = fakePod('a/thief', ['10.244.1.10'], { node: 'evil' });
    const compile = egressCompiler(CONFIG);
    const namespaces = [{ kind: 'Namespace' as const, name: 'a', labels: {} }];
    const found = (objects: EgressInput) => {
      const compiled = compile(objects);
      const { verdict } = egressExplainer(
        objects,
        compiled,
      )({
        traffic: 'Egress',
        src: '10.244.1.10',
        dst: '198.51.100.1',
      });
      const nodes = ['w', 'evil'].filter((node) => compiled.sources.get(node)?.has('10.244.1.10'));
      return [verdict, ...nodes];
    };
    const objects = { ...cluster({ nodes: [evil], pods: [thief] }), namespaces };
    const steered = { ...objects, egressPolicies: [own, SHUT] };
    assert.deepEqual(found(steered), ['Drop', 'w']);
    const { podCIDRs: _, ...homeless } = W;
    assert.deepEqual(found({ ...steered, nodes: [homeless, evil] }), ['Direct', 'evil'], 'then by name');
    assert.deepEqual(found(steered), ['Drop', 'w'], 'and back, though no pod changed');
  });
});
