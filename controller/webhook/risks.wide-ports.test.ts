import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { ClusterNetworkPolicy, ClusterNetworkPolicySpec, Rule } from '../../apis/objects.ts';
import { present } from '../../lib/sharing/present.ts';
import { widePortWarnings } from './risks.ts';

function warnings(spec: Partial<ClusterNetworkPolicySpec>): string[] {
  const whole = { priority: 5, appliedTo: [{ nodeSelector: {} }], ...spec };
  const policy: ClusterNetworkPolicy = {
    kind: 'ClusterNetworkPolicy',
    apiGroup: 'nodewall.io',
    name: 'p',
    uid: '',
    generation: 1,
    spec: whole,
  };
  return widePortWarnings(policy, DEFAULT_CONFIG.failsafe);
}
const drop = (ports: Rule['ports'], peers: Partial<Rule> = {}): Rule => {
  return { action: 'Drop', ...present({ ports }), ...peers };
};
const ALL_TCP = [{ protocol: 'TCP' }] as const;

describe('the warning that a rule names too many ports', () => {
  it('names the rule and what it closes', () => {
    const [text, ...more] = warnings({ ingress: [drop([{ port: 22 }]), drop(ALL_TCP)] });
    assert.match(text ?? '', /^spec\.ingress\[1\]: .* also closes TCP 6443, TCP 2379-2380, TCP 10250, which/);
    assert.deepEqual(more, []);
    assert.match(
      warnings({ egress: [drop([{ protocol: 'UDP', port: 1, endPort: 1024 }])] }).join(),
      /egress\[0\]: .* UDP 53,/,
    );
  });

  it('is given for what no earlier rule allows', () => {
    const allow = (ports: Rule['ports']): Rule => ({ ...drop(ports), action: 'Allow' });
    assert.match(
      warnings({ ingress: [allow([{ port: 6443 }]), drop(ALL_TCP)] }).join(),
      /closes TCP 2379-2380, TCP 10250,/,
    );
    const needed = [{ port: 6443 }, { port: 2379, endPort: 2380 }, { port: 10250 }];
    assert.deepEqual(warnings({ ingress: [allow(needed), drop(ALL_TCP)] }), []);
    assert.deepEqual(warnings({ ingress: [allow(undefined), drop(ALL_TCP)] }), []);
  });

  for (const [what, spec] of [
    ['a rule without ports, which the failsafe list limits', { ingress: [drop(undefined)] }],
    ['a port that is named', { ingress: [drop([{ port: 10250 }])] }],
    ['some ports', { ingress: [drop([{ port: 6000, endPort: 6900 }])] }],
    ['another protocol', { ingress: [drop([{ protocol: 'UDP' }])] }],
    ['some peers', { ingress: [drop(ALL_TCP, { from: [{ ipBlock: { cidr: '10.0.0.0/8' } }] })] }],
    ['an Audit policy', { mode: 'Audit', ingress: [drop(ALL_TCP)] }],
    ['NodePorts', { traffic: 'NodePort', ingress: [drop(ALL_TCP)] }],
    ['a rule that allows', { ingress: [{ action: 'Allow', ports: ALL_TCP }] }],
  ] as const) {
    it(`is not given for ${what}`, () => assert.deepEqual(warnings(spec), []));
  }
});
