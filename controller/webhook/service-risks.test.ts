import assert from 'node:assert/strict';
import type {
  ClusterGroup,
  ClusterNetworkPolicy,
  ClusterNetworkPolicySpec,
  Rule,
  Service,
} from '../../apis/objects.ts';
import { leftOutEndpointWarnings, serviceWarnings } from './service-risks.ts';

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

function group(name: string, spec: ClusterGroup['spec']): ClusterGroup {
  return { kind: 'ClusterGroup', apiGroup: 'nodewall.io', name, spec };
}
const GROUPS = [
  group('office', { ipBlocks: [{ cidr: '198.51.100.0/24' }, { cidr: '203.0.113.0/25' }] }),
  group('others', { ipBlocks: [{ cidr: '198.51.100.0/24' }] }),
  group('all', { childGroups: ['others', 'office'] }),
];

function warnings(spec: Partial<ClusterNetworkPolicySpec>, ...services: readonly Service[]): string[] {
  const policy: ClusterNetworkPolicy = {
    kind: 'ClusterNetworkPolicy',
    apiGroup: 'nodewall.io',
    name: 'p',
    uid: '',
    generation: 0,
    spec: { priority: 1, ...spec },
  };
  return serviceWarnings(policy, { services: services.length === 0 ? [WEB] : services, groups: GROUPS });
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
    for (const cidr of ['203.0.113.50/32', '203.0.113.0/24', '203.0.113.48/30', '128.0.0.0/1'])
      assert.match(
        to(cidr)[0] ?? '',
        /^spec\.egress\[0\]\.to\[0\]: has 203\.0\.113\.50, an external address of Service default\/web, /,
        cidr,
      );
    for (const cidr of ['2001:db8::50/128', '2001:db8::/32'])
      assert.match(
        to(cidr)[0] ?? '',
        /has 2001:db8::50, an external address of Service default\/web, /,
        cidr,
      );
    for (const cidr of ['203.0.113.51/32', '203.0.113.52/30', '0.0.0.0/0', '::/0', 'fd00::/8'])
      assert.deepEqual(to(cidr), [], cidr);
    const except = ['203.0.113.48/29', '203.0.113.0/28'];
    const block = { ipBlock: { cidr: '203.0.113.0/24', except } };
    assert.deepEqual(warnings({ egress: [{ action: 'Drop', to: [block] }] }), []);
  });

  it('name an external address that groups have, and groups in these', () => {
    const to = (name: string) => warnings({ egress: [{ action: 'Drop', to: [{ group: name }] }] });
    for (const name of ['office', 'all'])
      assert.match(
        to(name)[0] ?? '',
        new RegExp(`to\\[0\\]: ClusterGroup ${name} has 203\\.0\\.113\\.50, an external`),
      );
    for (const name of ['others', 'none']) assert.deepEqual(to(name), []);
  });
});

describe('the warning of endpoints that no pod has', () => {
  it('names rule, Service and addresses', () => {
    const to = (name: string) => ({ action: 'Allow' as const, toServices: [{ namespace: 'shop', name }] });
    const spec = { priority: 1, egress: [to('web'), to('db')] };
    const policy: ClusterNetworkPolicy = {
      kind: 'ClusterNetworkPolicy',
      apiGroup: 'nodewall.io',
      name: 'p',
      uid: '',
      generation: 0,
      spec,
    };
    const addresses = [1, 2, 3, 4].map((n) => `203.0.113.${n}`);
    const [warning, ...more] = leftOutEndpointWarnings(policy, new Map([['shop/db', addresses]]));
    assert.deepEqual(more, []);
    assert.match(
      warning ?? '',
      /^spec\.egress\[1\]\.toServices\[0\]: .* of shop\/db, .*: 203\.0\.113\.1, .*\.3 and 1 more; .* endpointsWithoutPods /,
    );
    assert.deepEqual(leftOutEndpointWarnings(policy, new Map()), []);
  });
});
