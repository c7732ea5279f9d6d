import assert from 'node:assert/strict';
import { parse } from 'yaml';
import type { FieldMap } from '../../schema/json-schema.ts';
import { findings, formatPath } from '../../validate/problem.ts';
import type { EgressPolicy } from '../objects.ts';
import { validateSpidernet } from './object.ts';

interface Read {
  readonly policy: EgressPolicy | null;
  readonly problems: readonly string[];
}

function read(version: string, kind: string, spec: string, metadata = '{name: pay, namespace: shop}'): Read {
  const found = findings();
  const text = `
apiVersion: egressgateway.spidernet.io/${version}
kind: ${kind}
metadata: ${metadata}
spec:
${spec}
`;
  const object = validateSpidernet(parse(text) as FieldMap, found);
  const problems = found.problems.map(
    ({ severity, path, message }) => `${severity} ${formatPath(path)}: ${message}`,
  );
  return { policy: object as EgressPolicy | null, problems };
}

const WEB = '  appliedTo: {podSelector: {matchLabels: {app: web}}}';

describe('an EgressPolicy of egressgateway.spidernet.io', () => {
  it('is of stage Namespace, with priority 1000, and drops where its gateway is not available', () => {
    const { policy, problems } = read(
      'v1beta1',
      'EgressPolicy',
      `
  egressGatewayName: edge
${WEB}
  destSubnet: ["203.0.113.0/24", "2001:db8:9::/48"]`,
      '{name: pay, namespace: shop, uid: u2, generation: 4}',
    );
    assert.deepEqual(problems, []);
    assert.deepEqual(policy, {
      kind: 'EgressPolicy',
      apiGroup: 'egressgateway.spidernet.io',
      namespace: 'shop',
      name: 'pay',
      uid: 'u2',
      generation: 4,
      spec: {
        stage: 'Namespace',
        appliedTo: [{ podSelector: { matchLabels: { app: 'web' } } }],
        gateway: 'edge',
        to: ['203.0.113.0/24', '2001:db8:9::/48'],
        except: [],
        action: 'Gateway',
        address: { allocation: 'Shared', fixed: {}, count: 1 },
        whenUnavailable: 'Drop',
        priority: 1000,
        mode: 'Enforce',
      },
      status: null,
    });
  });

  it('takes empty strings as absent: every destination outside, the default gateway', () => {
    const { policy, problems } = read(
      'v1beta1',
      'EgressPolicy',
      `
  egressGatewayName: ""
  egressIP: {ipv4: "", ipv6: "", useNodeIP: false, allocatorPolicy: ""}
${WEB}
  destSubnet: [""]`,
      '{name: pay}',
    );
    assert.deepEqual(problems, []);
    assert.equal(policy?.namespace, 'default');
    assert.equal(policy?.spec.gateway, undefined);
    assert.equal(policy?.spec.to, undefined);
    assert.equal(policy?.spec.address.allocation, 'Shared');
  });

  const ADDRESSES: readonly (readonly [egressIP: string, address: EgressPolicy['spec']['address']])[] = [
    ['{}', { allocation: 'Shared', fixed: {}, count: 1 }],
    ['{allocatorPolicy: default}', { allocation: 'Shared', fixed: {}, count: 1 }],
    ['{allocatorPolicy: rr}', { allocation: 'Dedicated', fixed: {}, count: 1 }],
    ['{useNodeIP: true}', { allocation: 'Node', fixed: {}, count: 1 }],
    [
      '{ipv4: 198.51.100.8, allocatorPolicy: rr}',
      { allocation: 'Fixed', fixed: { ipv4: '198.51.100.8' }, count: 1 },
    ],
    [
      '{ipv4: 198.51.100.8, ipv6: "2001:DB8::8"}',
      { allocation: 'Fixed', fixed: { ipv4: '198.51.100.8', ipv6: '2001:db8::8' }, count: 1 },
    ],
  ];
  for (const [egressIP, address] of ADDRESSES) {
    it(`with egressIP ${egressIP} has allocation ${address.allocation}`, () => {
      const { policy, problems } = read('v1beta1', 'EgressPolicy', `${WEB}\n  egressIP: ${egressIP}`);
      assert.deepEqual(problems, []);
      assert.deepEqual(policy?.spec.address, address);
    });
  }

  it('has podSubnet AND-ed with podSelector, and priority, which egressgateway ignored', () => {
    const { policy, problems } = read(
      'v1beta1',
      'EgressPolicy',
      `
  priority: 7
  appliedTo: {podSelector: {matchLabels: {app: web}}, podSubnet: ["10.244.9.0/24"]}`,
    );
    assert.deepEqual(problems, [
      'notice spec.appliedTo.podSubnet: the subnets count here: pods of its namespace that podSelector selects with these addresses; egressgateway ignored them',
      'notice spec.priority: counts here: lower goes first; egressgateway ignored it',
    ]);
    assert.deepEqual(policy?.spec.appliedTo, [
      { podSelector: { matchLabels: { app: 'web' } }, podSubnets: ['10.244.9.0/24'] },
    ]);
    assert.equal(policy?.spec.priority, 7);
  });

  it('with podSubnet beside an empty podSelector selects pods with these addresses', () => {
    const { policy } = read(
      'v1beta1',
      'EgressPolicy',
      '  appliedTo: {podSelector: {}, podSubnet: ["10.244.9.7/24"]}',
    );
    assert.deepEqual(policy?.spec.appliedTo, [{ podSelector: {}, podSubnets: ['10.244.9.0/24'] }]);
  });

  it('keeps the addresses of its status', () => {
    const found = findings();
    const object = validateSpidernet(
      {
        apiVersion: 'egressgateway.spidernet.io/v1beta1',
        kind: 'EgressPolicy',
        metadata: { name: 'pay', namespace: 'shop' },
        spec: { appliedTo: { podSelector: { matchLabels: { app: 'web' } } } },
        status: { eip: { ipv4: '198.51.100.8', ipv6: '2001:DB8::8' }, node: 'n1' },
      },
      found,
    );
    assert.ok(object?.kind === 'EgressPolicy');
    assert.deepEqual(object.status, { addresses: ['198.51.100.8', '2001:db8::8'] });
  });

  const REFUSED: readonly (readonly [what: string, spec: string, problem: RegExp])[] = [
    ['no pods', '  appliedTo: {}', /spec\.appliedTo: selects nothing; give podSelector or podSubnet/],
    ['no appliedTo', '  egressGatewayName: edge', /spec\.appliedTo: is missing/],
    [
      'namespaceSelector',
      '  appliedTo: {namespaceSelector: {}}',
      /namespaceSelector: is a field of EgressClusterPolicy/,
    ],
    [
      'an address of the other family',
      `${WEB}\n  egressIP: {ipv4: "2001:db8::8"}`,
      /egressIP\.ipv4: .*not an IPv4 address/,
    ],
    [
      'useNodeIP and an address',
      `${WEB}\n  egressIP: {ipv4: 198.51.100.8, useNodeIP: true}`,
      /useNodeIP: excludes ipv4 and ipv6/,
    ],
    [
      'a destination that is no CIDR',
      `${WEB}\n  destSubnet: [203.0.113.7]`,
      /destSubnet\[0\]: .*write 203\.0\.113\.7\/32/,
    ],
    [
      'fields of v1',
      `${WEB}\n  destCIDR: [203.0.113.0/24]`,
      /spec\.destCIDR: a field of v1; here it is destSubnet/,
    ],
    ['a priority below 0', `${WEB}\n  priority: -1`, /spec\.priority: must be a whole number from 0/],
    [
      'a label that cannot be',
      '  appliedTo: {podSelector: {matchLabels: {"a b": c}}}',
      /is not a valid label key/,
    ],
  ];
  for (const [what, spec, problem] of REFUSED) {
    it(`is refused with ${what}`, () => {
      const { policy, problems } = read('v1beta1', 'EgressPolicy', spec);
      assert.equal(policy, null);
      assert.match(problems.join('\n'), problem);
    });
  }

  it('with an unknown allocatorPolicy is read as egressgateway does, with a warning', () => {
    const { policy, problems } = read(
      'v1beta1',
      'EgressPolicy',
      `${WEB}\n  egressIP: {allocatorPolicy: random}`,
    );
    assert.equal(policy?.spec.address.allocation, 'Shared');
    assert.match(problems.join('\n'), /^warning spec\.egressIP\.allocatorPolicy: must be default or rr/);
  });
});

describe('an EgressClusterPolicy', () => {
  it('is a ClusterEgressPolicy of stage Default', () => {
    const { policy, problems } = read(
      'v1beta1',
      'EgressClusterPolicy',
      `
  appliedTo:
    namespaceSelector: {matchLabels: {tenant: a}}
    podSelector: {matchLabels: {app: web}}
    podSubnet: ["10.244.0.0/16"]`,
      '{name: pay}',
    );
    assert.deepEqual(problems, [
      'notice spec.appliedTo.podSubnet: the subnets count here: pods that podSelector selects with these addresses; egressgateway ignored them',
    ]);
    assert.equal(policy?.kind, 'ClusterEgressPolicy');
    assert.equal(policy?.writtenAs, 'EgressClusterPolicy');
    assert.equal(policy?.namespace, '');
    assert.equal(policy?.spec.stage, 'Default');
    assert.deepEqual(policy?.spec.appliedTo, [
      {
        podSelector: { matchLabels: { app: 'web' } },
        namespaceSelector: { matchLabels: { tenant: 'a' } },
        podSubnets: ['10.244.0.0/16'],
      },
    ]);
  });
});

describe('an EgressGatewayPolicy', () => {
  it('of 2023 is an EgressPolicy by its earlier name', () => {
    const { policy, problems } = read('v1beta1', 'EgressGatewayPolicy', `${WEB}\n  egressGatewayName: edge`);
    assert.deepEqual(problems, []);
    assert.equal(policy?.kind, 'EgressPolicy');
    assert.equal(policy?.writtenAs, 'EgressGatewayPolicy');
    assert.equal(policy?.namespace, 'shop');
    assert.equal(policy?.spec.address.allocation, 'Shared');
  });

  it('of v1 is cluster-scoped, has its subnets in podSelector, and uses the node’s address', () => {
    const { policy, problems } = read(
      'v1',
      'EgressGatewayPolicy',
      `
  appliedTo:
    podSelector:
      matchLabels: {app: web}
      ipv4PodSubnet: "10.244.0.0/16"
      ipv6PodSubnet: "10.245.0.0/16"
  destCIDR: ["203.0.113.0/24"]`,
      '{name: pay}',
    );
    assert.deepEqual(problems, [
      'warning spec.appliedTo.podSelector.ipv6PodSubnet: has CIDRs that are not IPv6; they count all the same',
      'notice spec.appliedTo.podSelector: the subnets count here: pods that podSelector selects with these addresses; egressgateway ignored them',
    ]);
    assert.equal(policy?.kind, 'ClusterEgressPolicy');
    assert.equal(policy?.spec.stage, 'Default');
    assert.deepEqual(policy?.spec.appliedTo, [
      { podSelector: { matchLabels: { app: 'web' } }, podSubnets: ['10.244.0.0/16', '10.245.0.0/16'] },
    ]);
    assert.deepEqual(policy?.spec.to, ['203.0.113.0/24']);
    assert.deepEqual(policy?.spec.address, { allocation: 'Node', fixed: {}, count: 1 });
    assert.equal(policy?.spec.gateway, undefined);
  });

  it('of v1 with a subnet alone selects by address', () => {
    const { policy } = read(
      'v1',
      'EgressGatewayPolicy',
      '  appliedTo: {podSelector: {ipv4PodSubnet: "10.244.0.0/16"}}\n  destSubnet: ["203.0.113.0/24"]',
      '{name: pay}',
    );
    assert.deepEqual(policy?.spec.appliedTo, [{ podSubnets: ['10.244.0.0/16'] }]);
  });

  it('of v1 has the address of gatewayNodeConfig, and podSubnet beside podSelector', () => {
    const { policy, problems } = read(
      'v1',
      'EgressGatewayPolicy',
      `
  appliedTo: {podSubnet: ["10.244.0.0/16"]}
  destSubnet: ["203.0.113.0/24"]
  gatewayNodeConfig: {egressIPv4VIP: 198.51.100.8, egressIPv6VIP: "", interface: eth1}`,
      '{name: pay}',
    );
    assert.match(problems.join('\n'), /^warning spec\.gatewayNodeConfig\.interface: is not read/m);
    assert.deepEqual(policy?.spec.appliedTo, [{ podSubnets: ['10.244.0.0/16'] }]);
    assert.deepEqual(policy?.spec.address, {
      allocation: 'Fixed',
      fixed: { ipv4: '198.51.100.8' },
      count: 1,
    });
  });

  it('of v1 with a namespace holds for that namespace', () => {
    const { policy } = read('v1', 'EgressGatewayPolicy', WEB);
    assert.equal(policy?.kind, 'EgressPolicy');
    assert.equal(policy?.namespace, 'shop');
  });
});
