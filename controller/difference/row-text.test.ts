import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { policy, tcp } from '../../test/kernel/manifests.ts';
import { toClusterObjects } from '../../test/properties/pipeline.ts';
import { compile } from '../compile/compile.ts';
import { clusterDifference } from './cluster-difference.ts';
import { Names, shownChanges } from './row-text.ts';

const NODES = ['10.0.0.1', '10.0.0.2'].map((address, i) => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: `n${i}` },
  status: { addresses: [{ type: 'InternalIP', address }] },
}));
const FIRST = policy('p', { ingress: [{ name: 'ssh', action: 'Allow', ports: [tcp(22)] }] });

/** The changes of the first group, as they are shown. */
function shown(before: readonly object[], after: readonly object[]): readonly (readonly string[])[] {
  const [from, to] = [before, after].map((raw) => {
    const objects = toClusterObjects(raw);
    return { objects, compiled: compile(objects) };
  });
  if (from === undefined || to === undefined) return [];
  const difference = clusterDifference(from.compiled, to.compiled, { config: DEFAULT_CONFIG });
  const names = new Names({ before: from, after: to, config: DEFAULT_CONFIG });
  const [group] = difference.groups;
  return group === undefined
    ? []
    : shownChanges(group, difference.wide(group), names).map(({ cells }) => cells);
}

describe('the text of a difference', () => {
  const ANTI_SPOOFING = 'Drop (anti-spoofing, which begins with the first rule on a node)';

  it("names anti-spoofing, which a node's first policy begins and its last one ends, once", () => {
    const [begin, ...more] = shown(NODES, [...NODES, FIRST]);
    const flows = ['ingress', 'Host', "packets of pods with a Node's address"];
    assert.deepEqual(begin, [...flows, begin?.[3], 'Allow (no rule)', ANTI_SPOOFING]);
    assert.deepEqual(more, []);
    const [end, ...others] = shown([...NODES, FIRST], NODES);
    assert.deepEqual(end, [...flows, end?.[3], ANTI_SPOOFING, 'Allow (no rule)']);
    assert.deepEqual(others, []);
  });
});
