import assert from 'node:assert/strict';
import { type ClusterObject, NO_OBJECTS, type Tier } from '../../apis/objects.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import { validateObject } from '../../apis/validate/object.ts';
import type { WaitingObject } from '../watch/source.ts';
import { changedObjects, type ObjectChange, withFollowing } from './object-mirror.ts';

function object<T extends ClusterObject>(kind: T['kind'], name: string, spec: object): T {
  const metadata = { name, uid: name, generation: 1 };
  const { object: valid, problems } = validateObject({
    apiVersion: 'nodewall.io/v1alpha1',
    kind,
    metadata,
    spec,
  });
  assert.ok(valid !== null, problems.map(({ message }) => message).join());
  return valid as T;
}

const policy = (name: string, spec: object) =>
  object<WaitingObject>('ClusterNetworkPolicy', name, {
    priority: 1,
    appliedTo: [{ nodeSelector: {} }],
    ingress: [{ name: 'r', action: 'Drop' }],
    ...spec,
  });
const group = (name: string, spec: object) => object<WaitingObject>('ClusterGroup', name, spec);
const added = (next: NonNullable<ObjectChange['next']>): ObjectChange => ({
  kind: next.kind,
  identity: identityOf(next),
  next,
});
const following = (change: ObjectChange, waiting: readonly WaitingObject[], objects = NO_OBJECTS) =>
  (withFollowing(objects, change, { waiting }, ['pods']).following ?? []).map(({ name }) => name);

describe('withFollowing', () => {
  const child = group('child', { ipBlocks: [{ cidr: '192.0.2.0/24' }] });
  const parent = group('parent', { childGroups: ['child'] });
  const from = (name: string) => ({ ingress: [{ name: 'r', action: 'Drop', from: [{ group: name }] }] });

  it('adds what waits for the created object, and for what that completes', () => {
    const waiting = [
      policy('of-parent', from('parent')),
      policy('of-child', from('child')),
      policy('of-other', from('other')),
      policy('of-both', { ...from('child'), tier: 'late' }),
      parent,
    ];
    assert.deepEqual(following(added(child as never), waiting).sort(), ['of-child', 'of-parent', 'parent']);
    const change = withFollowing(NO_OBJECTS, added(child as never), { waiting }, ['pods']);
    const { policies, groups } = changedObjects(NO_OBJECTS, change);
    assert.deepEqual(policies.map(({ name }) => name).sort(), ['of-child', 'of-parent']);
    assert.deepEqual(groups.map(({ name }) => name).sort(), ['child', 'parent']);
  });

  it('puts the new version in the place of the one in force', () => {
    const [before, next] = [policy('p', {}), policy('p', { tier: 'late' })];
    const objects = { ...NO_OBJECTS, policies: [before as never] };
    const tier = object<Tier>('Tier', 'late', { priority: 20 });
    const change = withFollowing(objects, added(tier), { waiting: [next] }, ['pods']);
    assert.deepEqual(changedObjects(objects, change).policies, [next]);
  });

  it('leaves out what stays wrong: a group nested too deeply, a target that is not of Nodes', () => {
    const waiting = [
      group('outer', { childGroups: ['middle'] }),
      policy('target', { appliedTo: [{ group: 'cidrs' }] }),
    ];
    const objects = { ...NO_OBJECTS, groups: [child as never] };
    const middle = group('middle', { childGroups: ['child'] });
    assert.deepEqual(following(added(middle as never), waiting, objects), []);
    const cidrs = group('cidrs', { ipBlocks: [{ cidr: '192.0.2.0/24' }] });
    assert.deepEqual(following(added(cidrs as never), waiting), []);
  });

  it('adds nothing to other changes', () => {
    const waiting = [policy('p', from('child'))];
    assert.deepEqual(following(added(policy('q', {}) as never), waiting), []);
    assert.deepEqual(following({ ...added(child as never), next: null }, waiting), []);
  });
});
