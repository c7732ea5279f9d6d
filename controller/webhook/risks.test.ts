import assert from 'node:assert/strict';
import type { ClusterGroup, ClusterNetworkPolicySpec, Rule } from '../../apis/objects.ts';
import { closedProbeWarnings } from './risks.ts';

const GROUPS: readonly ClusterGroup[] = [
  group('web', { podSelector: { matchLabels: { app: 'web' } } }),
  group('parent', { childGroups: ['web', 'absent'] }),
  group('nodes', { nodeSelector: {} }),
];

function group(name: string, spec: ClusterGroup['spec']): ClusterGroup {
  return { kind: 'ClusterGroup', apiGroup: 'nodewall.io', name, spec };
}

function warnings(egress: Rule[], spec: Partial<ClusterNetworkPolicySpec> = {}): string[] {
  return closedProbeWarnings(
    {
      kind: 'ClusterNetworkPolicy',
      apiGroup: 'nodewall.io',
      name: 'p',
      uid: '',
      generation: 1,
      spec: { priority: 5, appliedTo: [{ nodeSelector: {} }], egress, ...spec },
    },
    { groups: GROUPS },
  );
}

const PODS: Rule['to'] = [{ podSelector: {} }];
const drop = (to: Rule['to'], fields: Partial<Rule> = {}): Rule => ({
  action: 'Drop',
  ...fields,
  ...(to && { to }),
});
const allow = (port: number): Rule => ({ action: 'Allow', ports: [{ port }] });

describe("the warning that a policy closes the kubelet's probes", () => {
  it('names the rule, the effect and the remedy', () => {
    const [text, ...more] = warnings([allow(53), drop(PODS)]);
    assert.match(
      text ?? '',
      /^spec\.egress\[1\]: closes the kubelet's probes .* restarted; allow the ports /,
    );
    assert.deepEqual(more, []);
  });

  it('is given whatever selects the pods', () => {
    for (const to of [
      [{ namespaceSelector: {} }],
      [{ serviceAccount: { name: 'a', namespace: 'b' } }],
      [{ ipBlock: { cidr: '10.0.0.0/8' } }, { group: 'web' }],
      [{ group: 'parent' }],
    ])
      assert.equal(warnings([drop(to, { ports: [{ port: 80 }] })]).length, 1, JSON.stringify(to));
  });

  it('is not given where no pod is selected', () => {
    for (const to of [
      undefined,
      [{ ipBlock: { cidr: '10.0.0.1/32' } }],
      [{ nodeSelector: {} }],
      [{ interfaceGroup: 'pods' }],
      [{ group: 'nodes' }, { group: 'absent' }],
    ])
      assert.deepEqual(warnings([drop(to)]), [], JSON.stringify(to));
  });

  it('is not given for other protocols, for what is allowed before, or where nothing is denied', () => {
    assert.deepEqual(warnings([drop(PODS, { ports: [{ protocol: 'UDP', port: 80 }] })]), []);
    assert.deepEqual(warnings([drop(PODS, { protocols: [{ icmp: {} }] })]), []);
    assert.deepEqual(warnings([allow(80), drop(PODS, { ports: [{ port: 80 }] })]), []);
    assert.equal(warnings([allow(80), drop(PODS, { ports: [{ port: 80, endPort: 81 }] })]).length, 1);
    assert.deepEqual(warnings([{ action: 'Allow', ...(PODS && { to: PODS }) }]), []);
    assert.deepEqual(warnings([drop(PODS)], { mode: 'Audit' }), []);
    assert.deepEqual(warnings([], { ingress: [drop(undefined)] }), []);
  });
});
