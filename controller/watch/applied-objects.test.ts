import assert from 'node:assert/strict';
import { policy, tcp } from '../../test/kernel/manifests.ts';
import { toClusterObjects } from '../../test/properties/pipeline.ts';
import { appliedObjects, type RemovedObject } from './applied-objects.ts';
import { addObject, emptyContent } from './content.ts';

const tier = (name: string, priority: number) => ({
  apiVersion: 'nodewall.io/v1alpha1',
  kind: 'Tier',
  metadata: { name },
  spec: { priority },
});
const web = (more: object = {}) =>
  policy('web', { ingress: [{ name: 'r', action: 'Drop', ports: [tcp(80)] }], ...more });

function applied(
  inForce: readonly object[],
  given: readonly object[],
  removed: readonly RemovedObject[] = [],
) {
  const content = emptyContent('given.yaml');
  for (const raw of given) addObject({ content, options: {}, interned: new Map() }, raw, () => 7);
  return appliedObjects(toClusterObjects(inForce), { contents: [content], removed }, {});
}

describe('objects with a change', () => {
  it('have what is given in the place of what was there, and the rest', () => {
    const { objects, problems } = applied(
      [web(), policy('b', {}), tier('t', 9)],
      [web({ priority: 77, tier: 't' })],
    );
    assert.deepEqual(problems, []);
    assert.deepEqual(
      objects.policies.map(({ name, spec }) => [name, spec.priority]),
      [
        ['b', 5],
        ['web', 77],
      ],
    );
    assert.deepEqual(
      objects.tiers.map(({ name }) => name),
      ['t'],
    );
  });

  it('are without what is removed, by kind and name', () => {
    const { objects, absent } = applied(
      [web(), policy('b', {})],
      [],
      [
        { kind: 'clusternetworkpolicy', name: 'web' },
        { kind: 'Tier', name: 'b' },
      ],
    );
    assert.deepEqual(
      objects.policies.map(({ name }) => name),
      ['b'],
    );
    assert.deepEqual(absent, [{ kind: 'Tier', name: 'b' }]);
  });

  it('name what is not valid, and who refers to what is removed', () => {
    const { problems } = applied(
      [web({ tier: 't' }), tier('t', 9)],
      [web({ priority: 0 })],
      [{ kind: 'Tier', name: 't' }],
    );
    const texts = problems.map(({ file, name, path }) => `${file} ${name} ${path}`);
    assert.ok(texts.includes('given.yaml web spec.priority'), texts.join('\n'));
    assert.ok(texts.includes(' web spec.tier'), texts.join('\n'));
  });
});
