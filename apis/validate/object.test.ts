import assert from 'node:assert/strict';
import { isList, unwrapList, type ValidateOptions, validateObject } from './object.ts';
import { formatPath } from './problem.ts';

const policy = (spec: object, apiVersion = 'nodewall.io/v1alpha1'): object => {
  return { apiVersion, kind: 'ClusterNetworkPolicy', metadata: { name: 'p', uid: 'u', generation: 2 }, spec };
};
const pod = (spec: object, status: object): unknown => {
  const { object, problems } = validateObject({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'p' },
    spec,
    status,
  });
  assert.deepEqual(problems, []);
  return object;
};

describe('validateObject', () => {
  it('finds the one wrong field beside thousands that count as absent', () => {
    const ingress: object[] = Array.from({ length: 2000 }, () => ({ action: 'Allow', toServices: [] }));
    const spec = { priority: 1, appliedTo: [{ nodeSelector: {} }] };
    assert.notEqual(validateObject(policy({ ...spec, ingress })).object, null);
    const { object, problems } = validateObject(policy({ ...spec, ingress: [...ingress, { action: 'No' }] }));
    assert.equal(object, null);
    assert.deepEqual(
      problems.map(({ path }) => formatPath(path)),
      ['spec.ingress[2000].action'],
    );
  });

  it('drops empty fields that count as absent', () => {
    const appliedTo = [{ nodeSelector: { matchExpressions: [] } }];
    const raw = policy({
      priority: 5,
      tier: '',
      mode: 'Enforce',
      traffic: 'Host',
      appliedTo,
      ingress: [
        {
          action: 'Allow',
          name: '',
          from: [],
          ports: [],
          protocols: [],
          appliedTo: [],
          toServices: [],
          enableLogging: false,
        },
      ],
      egress: [{ action: 'Drop', to: [{ podSelector: {}, scope: 'Cluster' }], toServices: [], logLabel: '' }],
    });
    const { object, problems } = validateObject(raw);
    assert.deepEqual(problems, []);
    assert.deepEqual(object, {
      kind: 'ClusterNetworkPolicy',
      apiGroup: 'nodewall.io',
      name: 'p',
      uid: 'u',
      generation: 2,
      spec: {
        priority: 5,
        appliedTo: [{ nodeSelector: {} }],
        ingress: [{ action: 'Allow' }],
        egress: [{ action: 'Drop', to: [{ podSelector: {} }] }],
      },
    });
  });

  it('writes CIDRs in canonical form', () => {
    const from = [{ ipBlock: { cidr: '2001:DB8:0::1/32', except: ['2001:db8:1::/48'] } }];
    const raw = policy({
      priority: 1,
      appliedTo: [{ nodeSelector: {} }],
      ingress: [{ action: 'Allow', from }],
    });
    const { object, problems } = validateObject(raw);
    assert.deepEqual(
      problems.map(({ severity }) => severity),
      ['warning'],
    );
    assert.ok(object?.kind === 'ClusterNetworkPolicy');
    assert.deepEqual(object.spec.ingress?.[0]?.from, [
      { ipBlock: { cidr: '2001:db8::/32', except: ['2001:db8:1::/48'] } },
    ]);
  });

  it('accepts a policy of crd.antrea.io for Nodes', () => {
    const raw = policy({ priority: 1, appliedTo: [{ nodeSelector: {} }] }, 'crd.antrea.io/v1beta1');
    const { object, problems } = validateObject(raw);
    assert.deepEqual(problems, []);
    assert.ok(object?.kind === 'ClusterNetworkPolicy' && object.apiGroup === 'crd.antrea.io');
  });

  it('warns about SSH only if no rule allows it', () => {
    const warns = (ingress: object[], failsafe = undefined as never, more = {}): number => {
      const raw = policy({ priority: 1, appliedTo: [{ nodeSelector: {} }], ingress, ...more });
      return validateObject(raw, failsafe === undefined ? {} : { failsafe }).problems.length;
    };
    assert.equal(warns([{ action: 'Drop' }]), 1);
    assert.equal(warns([{ action: 'Reject', from: [{ ipBlock: { cidr: '0.0.0.0/0' } }] }]), 1);
    assert.equal(warns([{ action: 'Drop', from: [{ ipBlock: { cidr: '10.0.0.0/8' } }] }]), 0);
    assert.equal(warns([{ action: 'Drop', ports: [{}] }]), 0);
    assert.equal(warns([{ action: 'Pass' }, { action: 'Drop' }]), 0);
    assert.equal(warns([{ action: 'Pass', ports: [{ port: 22 }] }, { action: 'Drop' }]), 0);
    assert.equal(warns([{ action: 'Drop' }], undefined as never, { mode: 'Audit' }), 0);
    assert.equal(warns([{ action: 'Drop' }], undefined as never, { traffic: 'NodePort' }), 0);
    assert.equal(warns([{ action: 'Allow', ports: [{ port: 22 }] }, { action: 'Drop' }]), 0);
    assert.equal(warns([{ action: 'Allow', ports: [{ port: 20, endPort: 30 }] }, { action: 'Drop' }]), 0);
    assert.equal(warns([{ action: 'Allow', ports: [{ protocol: 'UDP' }] }, { action: 'Drop' }]), 1);
    assert.equal(
      warns([{ action: 'Drop' }], [{ protocol: 'tcp', ports: [22, 22], peers: ['10.0.0.0/8'] }] as never),
      0,
    );
  });

  it('accepts the fields of nodewall.io policies and of egress rules', () => {
    const rule = { action: 'Pass', enableLogging: true, logLabel: 'a' };
    const to = [
      { fqdn: '*.Example.COM.' },
      { group: 'g' },
      { interfaceGroup: 0 },
      { interfaceGroup: 'pods' },
    ];
    const raw = policy({
      priority: 1,
      mode: 'Audit',
      appliedTo: [{ group: 'nodes' }],
      egress: [
        { ...rule, to },
        { action: 'Drop', logLabel: 'b', toServices: [{ name: 's', namespace: 'd', scope: 'Cluster' }] },
      ],
    });
    assert.deepEqual(validateObject(raw).problems, []);
    const { object } = validateObject(raw);
    assert.deepEqual(object?.kind === 'ClusterNetworkPolicy' && object.spec, {
      priority: 1,
      mode: 'Audit',
      appliedTo: [{ group: 'nodes' }],
      egress: [
        { ...rule, to: [{ fqdn: '*.example.com' }, ...to.slice(1)] },
        { action: 'Drop', logLabel: 'b', toServices: [{ name: 's', namespace: 'd' }] },
      ],
    });
    const nodePort = { priority: 1, traffic: 'NodePort', appliedTo: [{ nodeSelector: {} }], egress: [] };
    const { object: other } = validateObject(policy(nodePort));
    assert.equal(other?.kind === 'ClusterNetworkPolicy' && other.spec.traffic, 'NodePort');
  });

  it('narrows ClusterGroups of both API groups', () => {
    const group = (spec: object): unknown => {
      const apiVersion = 'crd.antrea.io/v1beta1';
      const raw = { apiVersion, kind: 'ClusterGroup', metadata: { name: 'g' }, spec, status: { a: 1 } };
      const { object, problems } = validateObject(raw);
      assert.deepEqual(problems, []);
      assert.ok(object?.kind === 'ClusterGroup' && object.apiGroup === 'crd.antrea.io');
      return object.spec;
    };
    const both = { podSelector: { matchLabels: { a: 'b' } }, namespaceSelector: {} };
    assert.deepEqual(group({ ...both, childGroups: [] }), both);
    assert.deepEqual(group({ nodeSelector: { matchExpressions: [] } }), { nodeSelector: {} });
    assert.deepEqual(group({ ipBlocks: [{ cidr: '2001:DB8::/32' }] }), {
      ipBlocks: [{ cidr: '2001:db8::/32' }],
    });
    assert.deepEqual(group({ childGroups: ['a', 'b'], ipBlocks: [] }), { childGroups: ['a', 'b'] });
    const serviceReference = { name: 's', namespace: 'd' };
    assert.deepEqual(group({ serviceReference }), { serviceReference });
  });

  it('narrows Services', () => {
    const service = (spec: object, more: object = {}): unknown => {
      const raw = { apiVersion: 'v1', kind: 'Service', metadata: { name: 's' }, spec, ...more };
      const { object, problems } = validateObject(raw);
      assert.deepEqual(problems, []);
      return object;
    };
    const base = {
      kind: 'Service',
      namespace: 'default',
      name: 's',
      selector: null,
      clusterIPs: [],
      ports: [],
    };
    const spec = { clusterIPs: ['10.0.0.1', '2001:DB8::1'], clusterIP: '10.0.0.1', selector: { a: 'b' } };
    const ports = [{ port: 53, protocol: 'UDP', name: 'x', targetPort: 'dns' }, { port: 53 }, { port: 53 }];
    assert.deepEqual(service({ ...spec, ports }), {
      ...base,
      selector: { a: 'b' },
      clusterIPs: ['10.0.0.1', '2001:db8::1'],
      ports: [
        { protocol: 'UDP', port: 53 },
        { protocol: 'TCP', port: 53 },
      ],
    });
    assert.deepEqual(service({ clusterIP: '10.0.0.1', selector: {} }), { ...base, clusterIPs: ['10.0.0.1'] });
    assert.deepEqual(service({ clusterIP: 'None', clusterIPs: ['None'] }), base);
    assert.deepEqual(service({ clusterIP: '' }), base);
    assert.deepEqual(service({ ...spec, type: 'ExternalName', externalName: 'example.com' }), base);
    const ingress = [{ ip: '198.51.100.1' }, { hostname: 'lb.example.com' }, 7, { ip: 'x' }];
    assert.deepEqual(
      service({ externalIPs: ['2001:DB8::9', '198.51.100.1'] }, { status: { loadBalancer: { ingress } } }),
      { ...base, externalAddresses: ['2001:db8::9', '198.51.100.1'] },
    );
  });

  it('narrows EndpointSlices, and drops unready endpoints and slices without a Service', () => {
    const slice = (more: object, labels: object = { 'kubernetes.io/service-name': 's' }): unknown => {
      const metadata = { name: 's-1', namespace: 'd', labels };
      const raw = { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', metadata, addressType: 'IPv4' };
      const { object, problems } = validateObject({ ...raw, ...more });
      assert.deepEqual(problems, []);
      return object;
    };
    const endpoints = [
      { addresses: ['10.0.0.1'] },
      { addresses: ['10.0.0.2', '10.0.0.1'], conditions: { ready: true } },
      { addresses: ['10.0.0.3'], conditions: { ready: false, serving: true } },
      { addresses: ['10.0.0.4'], conditions: { ready: null } },
      { addresses: ['10.0.0.5'], conditions: {} },
    ];
    const ports = [{ port: 8080, protocol: 'TCP' }, { name: 'all', port: null }, { name: 'none' }];
    assert.deepEqual(slice({ endpoints, ports }), {
      kind: 'EndpointSlice',
      namespace: 'd',
      name: 's-1',
      service: 's',
      addresses: ['10.0.0.1', '10.0.0.2', '10.0.0.4', '10.0.0.5'],
      ports: [{ protocol: 'TCP', port: 8080 }],
    });
    assert.equal(slice({ endpoints, ports }, {}), null);
    assert.equal(slice({ addressType: 'FQDN', endpoints: [{ addresses: ['example.com'] }] }), null);
  });

  it('accepts a built-in tier as an object', () => {
    for (const [name, priority] of [
      ['emergency', 50],
      ['baseline', 253],
      ['mine', 252],
    ] as const) {
      const raw = {
        apiVersion: 'nodewall.io/v1alpha1',
        kind: 'Tier',
        metadata: { name },
        spec: { priority },
      };
      assert.deepEqual(validateObject(raw), {
        object: { kind: 'Tier', apiGroup: 'nodewall.io', name, priority },
        problems: [],
      });
    }
  });

  it('reads the addresses of a Node', () => {
    const { object, problems } = validateObject({
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'n', annotations: { 'nodewall.io/addresses': ' 10.0.0.9 ,2001:DB8::1,,10.0.0.1' } },
      status: {
        addresses: [
          { type: 'InternalIP', address: '10.0.0.1' },
          { type: 'ExternalIP', address: '192.0.2.1' },
          { type: 'Hostname', address: 'n' },
          { type: 'InternalDNS', address: '10.9.9.9' },
        ],
      },
    });
    assert.deepEqual(problems, []);
    assert.deepEqual(object, {
      kind: 'Node',
      name: 'n',
      labels: {},
      addresses: ['10.0.0.1', '192.0.2.1', '10.0.0.9', '2001:db8::1'],
    });
  });

  it('uses the first 64 addresses of a Node', () => {
    const addresses = Array.from({ length: 70 }, (_, index) => `10.0.0.${index + 1}`);
    const { object, problems } = validateObject({
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'n', annotations: { 'nodewall.io/addresses': addresses.join() } },
      status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] },
    });
    assert.deepEqual(object?.kind === 'Node' && object.addresses, ['192.0.2.1', ...addresses.slice(0, 63)]);
    assert.deepEqual(
      problems.map(({ severity, message }) => [severity, message]),
      [['warning', 'the Node has 71 addresses; those after the first 64 are left out']],
    );
  });

  it('narrows Pods, and drops finished ones', () => {
    const base = { kind: 'Pod', namespace: 'default', name: 'p', labels: {} };
    assert.deepEqual(
      pod({ serviceAccountName: 's' }, { podIPs: [{ ip: '10.0.0.1' }, { ip: '::1' }], podIP: '10.0.0.1' }),
      {
        ...base,
        serviceAccount: 's',
        addresses: ['10.0.0.1', '::1'],
      },
    );
    assert.deepEqual(pod({}, { podIP: '10.0.0.1' }), {
      ...base,
      serviceAccount: 'default',
      addresses: ['10.0.0.1'],
    });
    assert.deepEqual(pod({ hostNetwork: true }, { podIP: '10.0.0.1' }), {
      ...base,
      serviceAccount: 'default',
      addresses: [],
      hostNetwork: true,
      hostAddresses: ['10.0.0.1'],
    });
    assert.equal(pod({}, { phase: 'Succeeded', podIP: '10.0.0.1' }), null);
    assert.equal(pod({}, { phase: 'Failed', podIP: '10.0.0.1' }), null);
  });

  it('warns of a wildcard in an Allow rule only where the answers of any DNS server are believed', () => {
    const egress = [
      { action: 'Drop', to: [{ fqdn: '*.a.test' }] },
      { action: 'Allow', to: [{ fqdn: 'a.test' }, { fqdn: '*.b.test' }] },
    ];
    const raw = {
      apiVersion: 'nodewall.io/v1alpha1',
      kind: 'ClusterNetworkPolicy',
      metadata: { name: 'p' },
      spec: { priority: 1, appliedTo: [{ nodeSelector: {} }], egress },
    };
    const warned = (options: ValidateOptions) =>
      validateObject(raw, options).problems.map(({ path, message }) => `${formatPath(path)}: ${message}`);
    assert.match(
      warned({ believesAnyServer: true }).join(),
      /^spec\.egress\[1\]\.to\[1\]: any DNS server may say which addresses these names have, so .* names\.learnFrom /,
    );
    assert.deepEqual(warned({}), []);
    assert.deepEqual(warned({ believesAnyServer: true, failsafe: null }), []);
  });

  it('ignores other kinds', () => {
    for (const [apiVersion, kind] of [
      ['apps/v1', 'Deployment'],
      ['v1', 'ConfigMap'],
      ['serving.knative.dev/v1', 'Service'],
      ['discovery.k8s.io/v1beta1', 'EndpointSlice'],
      ['crd.antrea.io/v1beta1', 'Traceflow'],
      ['policy.networking.k8s.io/v1alpha2', 'Other'],
      ['__proto__/v1', 'ClusterRole'],
      ['constructor', 'Node'],
      ['metrics.k8s.io/v1beta1', 'Node'],
    ]) {
      assert.deepEqual(validateObject({ apiVersion, kind, spec: 5 }), { object: null, problems: [] });
    }
  });
});

describe('unwrapList', () => {
  it('unwraps lists in lists and fills in the kind of typed ones', () => {
    const raw = {
      apiVersion: 'v1',
      kind: 'List',
      items: [{ kind: 'X' }, { apiVersion: 'v1', kind: 'PodList', items: [{ a: 1 }] }],
    };
    assert.ok(isList(raw));
    assert.deepEqual(
      [...unwrapList(raw)].map((item) => [formatPath(item.path), item.raw]),
      [
        ['items[0]', { kind: 'X' }],
        ['items[1].items[0]', { a: 1, apiVersion: 'v1', kind: 'Pod' }],
      ],
    );
  });
});
