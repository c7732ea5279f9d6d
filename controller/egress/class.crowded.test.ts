import assert from 'node:assert/strict';
import { DEFAULT_EGRESS_CONFIG } from '../../apis/egress/config.ts';
import { egressInput, fakeGateway, fakeNode, fakePod, fakePolicy } from '../../test/fake/egress-objects.ts';
import { compileEgress, type EgressInput, egressCompiler } from './compile-egress.ts';
import { egressExplainer } from './decide.ts';
import { nodeEgressCompiler } from './node-egress.ts';

const CONFIG = { ...DEFAULT_EGRESS_CONFIG, namespaceLimits: { policies: 20, networks: 2 } };
/** For the classes of one namespace. */
const ROOM = 64 * 2;

const networks = (count: number): string[] => Array.from({ length: count }, (_, i) => `11.${i}.0.0/24`);
/** In namespace `name`: so many pods, each with policies of its own. */
function tenant(name: string, pods: number) {
  const labels = { 'kubernetes.io/metadata.name': name };
  return {
    namespaces: [{ kind: 'Namespace' as const, name, labels }],
    pods: Array.from({ length: pods }, (_, i) =>
      fakePod(`${name}/p${i}`, [`10.1.${pods}.${i}`], { node: 'w', labels: { i: String(i) } }),
    ),
    egressPolicies: [
      fakePolicy(`${name}/all`, { to: networks(20) }),
      ...Array.from({ length: pods }, (_, i) =>
        fakePolicy(`${name}/q${i}`, {
          appliedTo: [{ podSelector: { matchLabels: { i: String(i) } } }],
          to: networks(i + 1),
          action: 'Direct',
        }),
      ),
    ],
  };
}

function cluster(...tenants: readonly ReturnType<typeof tenant>[]): EgressInput {
  return egressInput({
    nodes: [fakeNode('w', ['192.0.2.1'], { labels: {} }), fakeNode('g', ['192.0.2.2'])],
    egressGateways: [fakeGateway('g', { source: 'Node', default: true })],
    namespaces: tenants.flatMap(({ namespaces }) => namespaces),
    pods: tenants.flatMap(({ pods }) => pods),
    egressPolicies: tenants.flatMap(({ egressPolicies }) => egressPolicies),
  });
}

/** The verdicts of the namespace's pods towards a destination of all policies. */
function verdicts(objects: EgressInput, compiled: ReturnType<typeof compileEgress>, namespace: string) {
  const explain = egressExplainer(objects, compiled);
  return objects.pods
    .filter((pod) => pod.namespace === namespace)
    .map(({ name }) => {
      const { verdict, reason } = explain({
        traffic: 'Egress',
        pod: `${namespace}/${name}`,
        dst: '11.0.0.1',
      });
      return `${verdict} ${reason}`;
    });
}

describe('a namespace whose pods have too many destinations together', () => {
  const many = cluster(tenant('evil', 9), tenant('shop', 2));

  it('has room for the classes with the fewest; the others drop, and nobody else’s', () => {
    const compiled = compileEgress(many, CONFIG);
    const ranges = [...compiled.classes.values()].reduce((sum, { ipv4 }) => sum + ipv4.length, 0);
    assert.ok(ranges <= ROOM + 50, `${ranges}`);
    const evil = verdicts(many, compiled, 'evil');
    assert.deepEqual(new Set(evil), new Set(['Gateway policy', 'Drop no-route']));
    assert.equal(evil.indexOf('Drop no-route'), evil.lastIndexOf('Gateway policy') + 1, `${evil}`);
    assert.deepEqual(verdicts(many, compiled, 'shop'), ['Gateway policy', 'Gateway policy']);
    assert.deepEqual(new Set(compiled.crowded.values()), new Set(['evil']));
    const view = nodeEgressCompiler()(compiled).get('w');
    const dropped = [...(view?.outcomes.values() ?? [])].filter(({ action }) => action.kind === 'drop');
    assert.ok(dropped.length > 0);
    for (const { action } of dropped) assert.deepEqual(action, { kind: 'drop', reason: 'no-route' });
  });

  it('gets the same whatever it had before, and all of it again once it has fewer', () => {
    const compile = egressCompiler(CONFIG);
    const few = cluster(tenant('evil', 2), tenant('shop', 2));
    for (const objects of [few, many, few, many]) {
      const [next, whole] = [compile(objects), compileEgress(objects, CONFIG)];
      assert.deepEqual(next.crowded, whole.crowded);
      assert.deepEqual(next.classes, whole.classes);
    }
    assert.deepEqual(verdicts(few, compile(few), 'evil'), ['Gateway policy', 'Gateway policy']);
  });
});
