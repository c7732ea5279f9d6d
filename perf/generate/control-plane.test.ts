import assert from 'node:assert/strict';
import { type ClusterObject, NO_OBJECTS } from '../../apis/objects.ts';
import { validateObject } from '../../apis/validate/object.ts';
import { compile } from '../../controller/compile/compile.ts';
import { type ControlPlaneSize, controlPlane } from './control-plane.ts';

const SMALL = { nodes: 60, namespaces: 12, pods: 48, policies: 40, rulesAPolicy: 10 } as const;

function objectsOf(size: ControlPlaneSize) {
  const all = [...controlPlane(size)].map((raw): ClusterObject => {
    const { object, problems } = validateObject(raw);
    assert.deepEqual(
      problems.filter(({ severity }) => severity === 'error'),
      [],
    );
    assert.ok(object !== null);
    return object;
  });
  const of = <K extends ClusterObject['kind']>(kind: K) =>
    all.filter((one): one is Extract<ClusterObject, { kind: K }> => one.kind === kind);
  return {
    ...NO_OBJECTS,
    nodes: of('Node'),
    namespaces: of('Namespace'),
    pods: of('Pod'),
    policies: of('ClusterNetworkPolicy'),
  };
}

describe('a large control plane', () => {
  for (const shape of ['mixed', 'namespaced'] as const) {
    it(`is as large as it says, valid, and the same each time: ${shape}`, () => {
      const objects = objectsOf({ ...SMALL, shape });
      const { nodes, namespaces, pods, policies } = objects;
      assert.deepEqual(
        [nodes, namespaces, pods, policies].map(({ length }) => length),
        [60, 12, 48, 40],
      );
      assert.deepEqual(objectsOf({ ...SMALL, shape }), objects);
      const compiled = compile(objects);
      assert.equal(compiled.policies.flatMap(({ rules }) => rules).length, 400);
    });
  }

  it('has policies for all nodes, for some and for one, and peers that stand for somebody', () => {
    const { policies, addressSets } = compile(objectsOf({ ...SMALL, shape: 'mixed' }));
    const sizes = new Set(policies.flatMap(({ spans }) => spans.map(({ size }) => size)));
    for (const size of [60, 40, 5, 2, 1]) assert.ok(sizes.has(size), `${size} of ${[...sizes].join(', ')}`);
    const members = [...addressSets.values()].map(({ members: { v4 } }) => v4.singles.length / 4);
    assert.ok(members.filter((count) => count > 0).length > addressSets.size / 4);
    assert.ok(members.some((count) => count >= 40));
  });
});
