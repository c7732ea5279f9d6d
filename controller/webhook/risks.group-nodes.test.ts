import assert from 'node:assert/strict';
import type { ClusterGroup, ClusterNetworkPolicy } from '../../apis/objects.ts';
import { groupNodeWarnings } from './risks.ts';

const API_GROUP = 'nodewall.io';
const WEB = { nodeSelector: { matchLabels: { role: 'web' } } };

function warnings(action: 'Allow' | 'Drop', ...specs: readonly object[]): string[] {
  const policy = {
    kind: 'ClusterNetworkPolicy',
    apiGroup: API_GROUP,
    name: 'p',
    spec: { priority: 1, ingress: [{ action, from: [{ group: 'g0' }] }] },
  } as unknown as ClusterNetworkPolicy;
  const groups = specs.map(
    (spec, i) =>
      ({ kind: 'ClusterGroup', apiGroup: API_GROUP, name: `g${i}`, spec }) as unknown as ClusterGroup,
  );
  return groupNodeWarnings(policy, { groups });
}

describe('groups of Nodes in Allow rules of ingress', () => {
  it('are warned of where a kubelet may write their labels, nested ones too', () => {
    assert.match(warnings('Allow', WEB)[0] ?? '', /by which ClusterGroup g0 selects Nodes/);
    assert.equal(warnings('Allow', { childGroups: ['g1'] }, WEB).length, 1);
  });

  it('are not where only administrators write them, where all Nodes are selected, or in a Drop rule', () => {
    const reserved = { 'node-restriction.kubernetes.io/role': 'web' };
    assert.deepEqual(warnings('Allow', { nodeSelector: { matchLabels: reserved } }), []);
    assert.deepEqual(warnings('Allow', { nodeSelector: {} }), []);
    assert.deepEqual(warnings('Drop', WEB), []);
  });
});
