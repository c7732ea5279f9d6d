import assert from 'node:assert/strict';
import {
  describePermission,
  type EgressAnswer,
  type EgressConfig,
  type EgressFlow,
  egressOracle,
} from './egress-oracle.ts';
import { Consistency } from './permission.ts';

/** claim, objects beside the cluster, flow, the answers that are right, configuration. */
type Row = [
  claim: string,
  objects: object[],
  flow: Partial<EgressFlow>,
  expected: string,
  config?: EgressConfig,
];

const node = (name: string, labels: object, spec: object, ...addresses: string[]) => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name, labels },
  spec,
  status: { addresses: addresses.map((address) => ({ type: 'InternalIP', address })) },
});
const pod = (name: string, ip: string, spec: object = {}, phase = 'Running') => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: 'shop', labels: { app: name } },
  spec,
  status: { phase, podIP: ip },
});
const CLUSTER = [
  node('n1', {}, { podCIDRs: ['10.1.0.0/24'] }, '10.0.0.1', 'fd00::1'),
  node('g1', { egress: 'yes' }, {}, '10.0.0.2', 'fd00::2'),
  node('g2', { egress: 'yes' }, {}, '10.0.0.3'),
  { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop', labels: { team: 'red' } } },
  pod('web', '10.1.0.7'),
  pod('host', '10.0.0.1', { hostNetwork: true }),
  pod('done', '10.1.0.9', {}, 'Succeeded'),
];
const gateway = (name: string, spec: object, status?: object) => ({
  apiVersion: 'nodewall.io/v1alpha1',
  kind: 'EgressGateway',
  metadata: { name },
  spec: { nodeSelector: { matchLabels: { egress: 'yes' } }, allowedNamespaces: {}, ...spec },
  ...(status === undefined ? {} : { status }),
});
const pool = (...ranges: string[]) => ({ addresses: { pools: [{ ranges }] } });
const policy = (name: string, spec: object, addresses?: string[]) => ({
  apiVersion: 'nodewall.io/v1alpha1',
  kind: 'EgressPolicy',
  metadata: { name, namespace: 'shop' },
  spec: { appliedTo: [{ podSelector: {} }], ...spec },
  ...(addresses === undefined ? {} : { status: { addresses } }),
});
const cluster = (name: string, spec: object) => ({
  ...policy(name, { appliedTo: [{ podSelector: {} }], ...spec }),
  kind: 'ClusterEgressPolicy',
  metadata: { name },
});

const GW = gateway('gw', { ...pool('203.0.113.0/30'), default: true });
const NODES = gateway('gw', {});
const web = { pod: 'shop/web' };
const slot = (owner: string, ...addresses: string[]) => ({
  nodes: [{ name: 'g1', ready: false }],
  slots: [{ name: 's', node: owner, epoch: 1, addresses }],
});

const ROWS: Readonly<Record<string, Row[]>> = {
  'inside and host': [
    ['a pod network', [policy('p', { action: 'Drop' })], { ...web, dst: '10.1.0.255' }, 'Direct inside'],
    ['a Node', [policy('p', { action: 'Drop' })], { ...web, dst: '10.0.0.3' }, 'Direct inside'],
    ['an address of a pool', [GW], { ...web, dst: '203.0.113.2' }, 'Direct inside'],
    ['no network address', [GW], { ...web, dst: '203.0.113.0' }, 'Direct no-policy'],
    ['broadcast', [], { ...web, dst: '255.255.255.255' }, 'Direct inside'],
    ['link-local', [], { ...web, dst: '169.254.255.255' }, 'Direct inside'],
    [
      'the configured',
      [],
      { ...web, dst: '192.0.2.1' },
      'Direct inside',
      { egress: { inside: ['192.0.2.0/31'] } },
    ],
    [
      'configured Service networks without objects',
      [],
      { ...web, dst: '10.96.0.1' },
      'Direct inside',
      { egress: { serviceCIDRs: ['10.96.0.0/16'] } },
    ],
    ['hostNetwork', [policy('p', { action: 'Drop' })], { pod: 'shop/host', dst: '1.1.1.1' }, 'Direct host'],
    [
      'a Node as source',
      [policy('p', { action: 'Drop' })],
      { src: '10.0.0.2', dst: '1.1.1.1' },
      'Direct host',
    ],
  ],
  'unknown pods': [
    ['are held', [policy('p', {})], { src: '10.1.0.8', dst: '1.1.1.1' }, 'Drop unknown-pod'],
    ['finished ones too', [policy('p', {})], { src: '10.1.0.9', dst: '1.1.1.1' }, 'Drop unknown-pod'],
    ['not without a policy', [], { src: '10.1.0.8', dst: '1.1.1.1' }, 'Direct no-policy'],
    [
      'pass where they may',
      [policy('p', {})],
      { src: '10.1.0.8', dst: '1.1.1.1' },
      'Direct no-policy',
      { egress: { unknownPods: 'Pass' } },
    ],
    ['are not elsewhere', [policy('p', {})], { src: '10.7.0.8', dst: '1.1.1.1' }, 'Direct no-policy'],
  ],
  order: [
    [
      'Override, then namespaced, then Default',
      [
        policy('p', { action: 'Drop', priority: 9 }),
        cluster('o', { stage: 'Override', action: 'Direct' }),
        cluster('d', { priority: 1, action: 'Drop' }),
      ],
      { ...web, dst: '1.1.1.1' },
      'Direct policy o',
    ],
    [
      'lower priority first, then the name',
      [
        policy('b', { action: 'Drop', priority: 1 }),
        policy('a', { priority: 2 }),
        policy('c', { priority: 1 }),
      ],
      { ...web, dst: '1.1.1.1' },
      'Drop policy shop/b',
    ],
    [
      'to and except',
      [policy('a', { action: 'Drop', to: ['1.1.0.0/16'], except: ['1.1.1.0/24'] })],
      { ...web, dst: '1.1.1.1' },
      'Direct no-policy',
    ],
    [
      'Audit is as if absent',
      [policy('a', { action: 'Drop', mode: 'Audit' })],
      { ...web, dst: '1.1.1.1' },
      'Direct no-policy',
    ],
    [
      'podSubnets of a namespaced policy are wrong in themselves',
      [policy('a', { action: 'Drop', appliedTo: [{ podSubnets: ['10.1.0.0/24'] }] })],
      { ...web, dst: '1.1.1.1' },
      'Direct no-policy',
    ],
    [
      'podSubnets of a cluster policy',
      [cluster('a', { action: 'Drop', appliedTo: [{ podSubnets: ['172.20.0.0/24'] }] })],
      { src: '172.20.0.1', dst: '1.1.1.1' },
      'Drop policy a',
    ],
  ],
  gateways: [
    ['the default', [GW, policy('p', {})], { ...web, dst: '1.1.1.1' }, 'Gateway policy shop/p gw pool'],
    [
      'a missing one',
      [GW, policy('p', { gateway: 'x' })],
      { ...web, dst: '1.1.1.1' },
      'Drop no-gateway shop/p',
    ],
    [
      'one that is closed to the namespace',
      [
        gateway('gw', { allowedNamespaces: { matchLabels: { team: 'blue' } } }),
        policy('p', { gateway: 'gw' }),
      ],
      { ...web, dst: '1.1.1.1' },
      'Drop no-gateway shop/p gw',
    ],
    [
      'whenUnavailable: Direct',
      [policy('p', { gateway: 'x', whenUnavailable: 'Direct' })],
      { ...web, dst: '1.1.1.1' },
      'Direct no-gateway shop/p',
    ],
    [
      'no family of the pool',
      [GW, policy('p', {})],
      { ...web, dst: '2001:db8::1' },
      'Drop no-family shop/p gw',
    ],
    [
      'source Node: a node with the family',
      [NODES, policy('p', { gateway: 'gw' })],
      { ...web, dst: '2001:db8::1' },
      'Gateway policy shop/p gw own g1',
    ],
    [
      'no node is ready',
      [
        gateway('gw', {}, { nodes: ['g1', 'g2'].map((name) => ({ name, ready: false })), slots: [] }),
        policy('p', { gateway: 'gw' }),
      ],
      { ...web, dst: '1.1.1.1' },
      'Drop not-ready|no-family shop/p gw',
    ],
    [
      'the owner is not ready',
      [
        gateway('gw', pool('203.0.113.1'), slot('g1', '203.0.113.1')),
        policy('p', { gateway: 'gw' }, ['203.0.113.1']),
      ],
      { ...web, dst: '1.1.1.1' },
      'Drop not-ready shop/p gw',
    ],
    [
      'the owner is ready',
      [
        gateway('gw', pool('203.0.113.1'), slot('g2', '203.0.113.1')),
        policy('p', { gateway: 'gw' }, ['203.0.113.1']),
      ],
      { ...web, dst: '1.1.1.1' },
      'Gateway policy shop/p gw 203.0.113.1',
    ],
  ],
  addresses: [
    [
      'Fixed outside the pool',
      [GW, policy('p', { address: { allocation: 'Fixed', ipv4: '203.0.113.3' } })],
      { ...web, dst: '1.1.1.1' },
      'Drop no-address shop/p gw',
    ],
    [
      'Fixed that another has',
      [
        GW,
        policy('p', { address: { allocation: 'Fixed', ipv4: '203.0.113.2' } }),
        policy('q', { address: { allocation: 'Dedicated' } }, ['203.0.113.2']),
      ],
      { ...web, dst: '1.1.1.1' },
      'Drop no-address shop/p gw',
    ],
    [
      'nothing left',
      [
        gateway('gw', { ...pool('203.0.113.2'), default: true }),
        policy('p', { address: { allocation: 'Dedicated' } }),
        policy('q', { address: { allocation: 'Dedicated' } }, ['203.0.113.2']),
      ],
      { ...web, dst: '1.1.1.1' },
      'Drop no-address shop/p gw',
    ],
    [
      'perhaps nothing left',
      [GW, policy('p', { address: { allocation: 'Dedicated', count: 2 } })],
      { ...web, dst: '1.1.1.1' },
      'Gateway policy shop/p gw pool or Drop no-address shop/p gw',
    ],
  ],
};

describe('oracle of egress gateways', () => {
  for (const [group, rows] of Object.entries(ROWS)) {
    describe(group, () => {
      for (const [claim, objects, flow, expected, config = {}] of rows) {
        it(`${claim} -> ${expected}`, () => {
          const judge = egressOracle([...objects, ...CLUSTER], config);
          const found = judge({ traffic: 'Egress', dst: '', ...flow }).map((one) =>
            [one.verdict, one.reasons.join('|'), one.policy, one.gateway, one.exit?.text]
              .filter((part) => part != null)
              .join(' ')
              .replace('an address of the ', '')
              .replace('own address of', 'own'),
          );
          assert.equal(found.join(' or '), expected);
        });
      }
    });
  }

  it('finds two owners of an address, two holders, and too many addresses', () => {
    const objects = [
      gateway('gw', { ...pool('203.0.113.0/28'), default: true }),
      policy('p', { address: { allocation: 'Dedicated' } }),
      policy('q', {
        address: { allocation: 'Dedicated' },
        appliedTo: [{ podSelector: { matchLabels: {} } }],
      }),
    ];
    const judge = egressOracle([...CLUSTER, ...objects]);
    const permissions = judge({ traffic: 'Egress', ...web, dst: '1.1.1.1' });
    const answer = (address: string, owner: string): EgressAnswer => ({
      verdict: 'Gateway',
      policy: 'shop/p',
      gateway: 'gw',
      node: owner,
      address,
      reason: 'policy',
    });
    const consistency = new Consistency();
    assert.equal(consistency.contradiction(permissions, answer('203.0.113.1', 'g1')), null);
    assert.match(
      String(consistency.contradiction(permissions, answer('203.0.113.1', 'g2'))),
      /g1, and g2 too/,
    );
    assert.match(String(consistency.contradiction(permissions, answer('203.0.113.2', 'g1'))), /not 1/);
    const [first] = permissions;
    assert.ok(first?.exit !== undefined);
    const ofOther = [{ ...first, exit: { ...first.exit, holder: 'policy shop/q', count: 9 } }];
    assert.match(String(consistency.contradiction(ofOther, answer('203.0.113.1', 'g1'))), /shop\/q too/);
    assert.match(describePermission(first), /^Gateway \(policy\) policy shop\/p gateway gw, an address/);
  });
});
