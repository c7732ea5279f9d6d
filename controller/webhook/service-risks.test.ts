import assert from 'node:assert/strict';
import type { ClusterNetworkPolicy, ClusterNetworkPolicySpec, Rule, Service } from '../../apis/objects.ts';
import { serviceWarnings } from './service-risks.ts';

const WEB: Service = {
  kind: 'Service',
  namespace: 'default',
  name: 'web',
  selector: null,
  clusterIPs: ['10.96.0.50'],
  externalAddresses: ['203.0.113.50', '2001:db8::50'],
  healthCheckNodePort: 32_181,
  ports: [{ protocol: 'TCP', port: 443 }],
};
const OTHER: Service = { ...WEB, name: 'other', externalAddresses: [], healthCheckNodePort: 31_000 };

function warnings(spec: Partial<ClusterNetworkPolicySpec>, ...services: readonly Service[]): string[] {
  const policy: ClusterNetworkPolicy = {
    ...{ kind: 'ClusterNetworkPolicy', apiGroup: 'nodewall.io', name: 'p', uid: '', generation: 0 },
    spec: { priority: 1, ...spec },
  };
  return serviceWarnings(policy, services.length === 0 ? [WEB] : services);
}

const ssh: Rule = { action: 'Allow', ports: [{ port: 22 }] };
const rest: Rule = { action: 'Drop' };
const nodePorts: Rule = { action: 'Allow', ports: [{ port: 30_000, endPort: 32_767 }] };

describe('warnings about Services', () => {
  it('name the port of health checks that a policy of Host traffic closes', () => {
    const [warning, ...more] = warnings({ ingress: [ssh, rest] });
    assert.deepEqual(more, []);
    assert.match(warning ?? '', /^spec\.ingress\[1\]: closes TCP 32181, .* Service default\/web, /);
    assert.equal(warnings({ ingress: [ssh, rest] }, WEB, OTHER).length, 2);
    for (const ingress of [[ssh], [nodePorts, rest], [{ action: 'Drop', ports: [{ port: 80 }] } as const]])
      assert.deepEqual(warnings({ ingress }), [], JSON.stringify(ingress));
    assert.deepEqual(warnings({ ingress: [ssh, rest], mode: 'Audit' }), []);
  });

  it('say that a policy of NodePorts does not apply to it', () => {
    const [warning, ...more] = warnings({ traffic: 'NodePort', ingress: [nodePorts, rest] });
    assert.deepEqual(more, []);
    assert.match(warning ?? '', /^spec\.ingress\[0\]: does not apply to TCP 32181, .* traffic Host decide$/);
    assert.deepEqual(warnings({ traffic: 'NodePort', ingress: [rest] }), []);
  });

  it('name an external address that a rule for egress has as a block', () => {
    const to = (cidr: string) => warnings({ egress: [{ action: 'Drop', to: [{ ipBlock: { cidr } }] }] });
    for (const cidr of ['203.0.113.50/32', '2001:db8::50/128'])
      assert.match(
        to(cidr)[0] ?? '',
        /^spec\.egress\[0\]\.to\[0\]: is an external address of Service default\/web/,
      );
    for (const cidr of ['203.0.113.0/24', '203.0.113.51/32']) assert.deepEqual(to(cidr), []);
  });
});
