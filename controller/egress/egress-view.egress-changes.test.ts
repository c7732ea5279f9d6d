import assert from 'node:assert/strict';
import { DEFAULT_EGRESS_CONFIG } from '../../apis/egress/config.ts';
import { finish } from '../../lib/sharing/stepwise.ts';
import { egressInput, fakeGateway, fakeNode, fakePod, fakePolicy } from '../../test/fake/egress-objects.ts';
import { compileEgress } from './compile-egress.ts';
import { egressChanges } from './egress-view.ts';
import { nodeEgressCompiler } from './node-egress.ts';

const PODS = 200;
const NETWORKS = 256;

/** A gateway that serves pods of one policy with many destinations, which begin with `first`. */
function objects(first: number) {
  const to = Array.from({ length: NETWORKS }, (_, i) => `${first}.${i}.7.0/24`);
  return egressInput({
    nodes: [fakeNode('w', ['192.0.2.1'], { labels: {} }), fakeNode('g', ['192.0.2.2'])],
    namespaces: [{ kind: 'Namespace', name: 'shop', labels: {} }],
    pods: Array.from({ length: PODS }, (_, i) => fakePod(`shop/p${i}`, [`10.244.0.${i}`], { node: 'w' })),
    egressGateways: [fakeGateway('g', { source: 'Node', default: true })],
    egressPolicies: [fakePolicy('shop/p', { to })],
  });
}

describe('the messages about a gateway', () => {
  it('name the destinations of a class once, not for each of its pods', () => {
    const view = nodeEgressCompiler();
    const [first, edited] = [11, 12].map((number) =>
      view(compileEgress(objects(number), DEFAULT_EGRESS_CONFIG)),
    );
    assert.ok(first !== undefined && edited !== undefined);
    assert.equal(edited.get('g')?.arrivals.size, PODS);
    const bytes = (before: typeof first, now: typeof first): number =>
      finish(egressChanges(before, now))
        .filter(({ nodes }) => nodes.has('g'))
        .reduce((sum, { toUpdate }) => sum + JSON.stringify(toUpdate()).length, 0);
    const whole = bytes(new Map(), first);
    assert.ok(whole < 100 * NETWORKS + 150 * PODS, `the whole view: ${whole} bytes`);
    const edit = bytes(first, edited);
    assert.ok(edit < 100 * NETWORKS, `an edit: ${edit} bytes`);
  });

  it('name a class once for all nodes that have it', () => {
    const nodes = ['v', 'w'].map((name, i) => fakeNode(name, [`192.0.2.${i + 1}`], { labels: {} }));
    const at = (first: number) => {
      const pods = nodes.map(({ name }, i) => fakePod(`shop/p${i}`, [`10.244.0.${i}`], { node: name }));
      return egressInput({ ...objects(first), nodes: [...nodes, fakeNode('g', ['192.0.2.9'])], pods });
    };
    const view = nodeEgressCompiler();
    const [first, edited] = [11, 12].map((number) => view(compileEgress(at(number), DEFAULT_EGRESS_CONFIG)));
    assert.ok(first !== undefined && edited !== undefined);
    const updates = finish(egressChanges(first, edited)).map(({ toUpdate, nodes: to }) => {
      return { to: [...to].sort(), update: JSON.stringify(toUpdate()) };
    });
    const ofClass = updates.filter(({ update }) => update.includes('"part":"classes"'));
    assert.deepEqual(
      ofClass.map(({ to }) => to),
      [['v', 'w']],
    );
    assert.equal(ofClass[0]?.update.match(/12\.\d+\.7\.0/g)?.length, NETWORKS);
  });
});
