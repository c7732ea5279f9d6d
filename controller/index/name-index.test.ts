import assert from 'node:assert/strict';
import type { ApiGroup, ClusterGroup } from '../../apis/objects.ts';
import { groupFamily, groupIndex } from './name-index.ts';

const group = (apiGroup: ApiGroup, name: string, ...childGroups: string[]): ClusterGroup => ({
  kind: 'ClusterGroup',
  apiGroup,
  name,
  spec: childGroups.length === 0 ? { podSelector: {} } : { childGroups },
});
const family = (groups: ClusterGroup[], name: string, apiGroup: ApiGroup): string[] =>
  groupFamily(groupIndex(groups), name, apiGroup).map((one) => `${one.name}.${one.apiGroup}`);

describe('groupIndex', () => {
  const [ours, theirs] = [group('nodewall.io', 'a'), group('crd.antrea.io', 'a')];

  it("looks in the policy's own API group first, then in the other", () => {
    for (const groups of [
      [ours, theirs],
      [theirs, ours],
    ]) {
      assert.deepEqual(family(groups, 'a', 'nodewall.io'), ['a.nodewall.io']);
      assert.deepEqual(family(groups, 'a', 'crd.antrea.io'), ['a.crd.antrea.io']);
    }
    assert.deepEqual(family([theirs], 'a', 'nodewall.io'), ['a.crd.antrea.io']);
  });

  it("follows childGroups one level, starting in the group's own API group", () => {
    const parent = group('crd.antrea.io', 'p', 'b', 'a');
    const groups = [ours, theirs, parent, group('nodewall.io', 'b', 'a')];
    const wanted = ['p.crd.antrea.io', 'b.nodewall.io', 'a.crd.antrea.io'];
    assert.deepEqual(family(groups, 'p', 'nodewall.io'), wanted);
  });

  it('throws for a missing group', () => {
    assert.throws(() => family([ours], 'b', 'nodewall.io'), /no ClusterGroup b/);
    assert.throws(
      () => family([group('nodewall.io', 'p', 'gone')], 'p', 'nodewall.io'),
      /no ClusterGroup gone/,
    );
  });
});
