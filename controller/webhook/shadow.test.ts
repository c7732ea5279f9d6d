import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { ClusterGroup, ClusterNetworkPolicy, Tier } from '../../apis/objects.ts';
import { validateObject } from '../../apis/validate/object.ts';
import { shadowWarnings } from './shadow.ts';

const RELATED = { policies: [], groups: [], tiers: [] };
const OFF = { ingress: [], egress: [] };

function policy(spec: object, name = 'p'): ClusterNetworkPolicy {
  const { object, problems } = validateObject({
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name },
    spec: { priority: 10, appliedTo: [{ nodeSelector: {} }], ...spec },
  });
  assert.ok(object?.kind === 'ClusterNetworkPolicy', JSON.stringify(problems));
  return object;
}

/** Whether the second rule is reported as hidden by the first. */
function hides(
  first: object,
  second: object,
  more: object = {},
  failsafe = DEFAULT_CONFIG.failsafe,
): boolean {
  const rules = [
    { action: 'Allow', ...first },
    { action: 'Allow', ...second },
  ];
  const spec = 'egress' in more ? { ...more, egress: rules } : { ...more, ingress: rules };
  return shadowWarnings(policy(spec), RELATED, failsafe).length === 1;
}

const cidr = (text: string, ...except: string[]): object => ({
  ipBlock: { cidr: text, ...(except.length === 0 ? {} : { except }) },
});

describe('shadowWarnings', () => {
  const cases: readonly [string, boolean, object, object, object?][] = [
    ['everything hides everything', true, {}, {}],
    ['a port does not hide every port', false, { ports: [{ port: 80 }] }, {}],
    ['every port of TCP hides one', true, { ports: [{}] }, { ports: [{ port: 80 }] }],
    ['UDP hides no TCP', false, { ports: [{ protocol: 'UDP' }] }, { ports: [{ port: 80 }] }],
    [
      'two ranges together hide a third',
      true,
      {
        ports: [
          { port: 1, endPort: 50 },
          { port: 51, endPort: 99 },
        ],
      },
      { ports: [{ port: 40, endPort: 60 }] },
    ],
    [
      'a gap in them shows',
      false,
      {
        ports: [
          { port: 1, endPort: 50 },
          { port: 52, endPort: 99 },
        ],
      },
      { ports: [{ port: 40, endPort: 60 }] },
    ],
    [
      'source ports are part of it',
      false,
      { ports: [{ port: 80, sourcePort: 5 }] },
      { ports: [{ port: 80 }] },
    ],
    [
      'source ports in two parts',
      true,
      {
        ports: [
          { port: 80, sourcePort: 1, sourceEndPort: 99 },
          { port: 80, sourcePort: 100, sourceEndPort: 65535 },
        ],
      },
      { ports: [{ port: 80, sourcePort: 7, sourceEndPort: 700 }] },
    ],
    [
      'icmp of any type hides one',
      true,
      { protocols: [{ icmp: {} }] },
      { protocols: [{ icmp: { icmpType: 8 } }] },
    ],
    [
      'one type does not hide all',
      false,
      { protocols: [{ icmp: { icmpType: 8 } }] },
      { protocols: [{ icmp: {} }] },
    ],
    ['a wider block', true, { from: [cidr('10.0.0.0/8')] }, { from: [cidr('10.1.0.0/16')] }],
    [
      'a block less an exception',
      false,
      { from: [cidr('10.0.0.0/8', '10.1.0.0/24')] },
      { from: [cidr('10.1.0.0/16')] },
    ],
    [
      'an exception where the other has it too',
      true,
      { from: [cidr('10.0.0.0/8', '10.1.0.0/24')] },
      { from: [cidr('10.1.0.0/16', '10.1.0.0/23')] },
    ],
    [
      'two halves',
      true,
      { from: [cidr('10.0.0.0/9'), cidr('10.128.0.0/9')] },
      { from: [cidr('10.0.0.0/8')] },
    ],
    ['all of IPv4 is not everybody', false, { from: [cidr('0.0.0.0/0')] }, { from: [{ nodeSelector: {} }] }],
    [
      'both families are',
      true,
      { from: [cidr('0.0.0.0/0'), cidr('::/0')] },
      { from: [{ nodeSelector: {} }] },
    ],
    ['both families are anybody', true, { from: [cidr('0.0.0.0/0'), cidr('::/0')] }, {}],
    [
      'fewer requirements',
      true,
      { from: [{ nodeSelector: { matchLabels: { a: 'b' } } }] },
      { from: [{ nodeSelector: { matchLabels: { a: 'b', c: 'd' } } }] },
    ],
    [
      'more requirements',
      false,
      { from: [{ nodeSelector: { matchLabels: { a: 'b', c: 'd' } } }] },
      { from: [{ nodeSelector: { matchLabels: { a: 'b' } } }] },
    ],
    [
      'a requirement that follows from another',
      true,
      { from: [{ nodeSelector: { matchExpressions: [{ key: 'a', operator: 'NotIn', values: ['x'] }] } }] },
      { from: [{ nodeSelector: { matchLabels: { a: 'b' } } }] },
    ],
    [
      'pods of one namespace',
      true,
      { from: [{ podSelector: {} }] },
      {
        from: [{ podSelector: { matchLabels: { a: 'b' } }, namespaceSelector: { matchLabels: { n: 'x' } } }],
      },
    ],
    [
      'accounts are pods',
      true,
      { from: [{ namespaceSelector: {} }] },
      { from: [{ serviceAccount: { name: 'a', namespace: 'b' } }] },
    ],
    ['pods are no Nodes', false, { from: [{ podSelector: {} }] }, { from: [{ nodeSelector: {} }] }],
    [
      'an interface group hides itself',
      true,
      { from: [{ interfaceGroup: 8 }] },
      { from: [{ interfaceGroup: 8 }] },
    ],
    ['and no other', false, { from: [{ interfaceGroup: 8 }] }, { from: [{ interfaceGroup: 9 }] }],
    ['nor addresses', false, { from: [{ interfaceGroup: 8 }] }, { from: [cidr('10.0.0.0/8')] }],
    ['a wildcard', true, { to: [{ fqdn: '*.a.io' }] }, { to: [{ fqdn: 'x.y.a.io' }] }, { egress: 1 }],
    [
      'a wildcard has a label more',
      false,
      { to: [{ fqdn: '*.a.io' }] },
      { to: [{ fqdn: 'a.io' }] },
      { egress: 1 },
    ],
    [
      'a Service among more',
      true,
      {
        toServices: [
          { name: 'a', namespace: 'n' },
          { name: 'b', namespace: 'n' },
        ],
      },
      { toServices: [{ name: 'b', namespace: 'n' }] },
      { egress: 1 },
    ],
    [
      'a Service is not a port',
      false,
      { ports: [{}] },
      { toServices: [{ name: 'b', namespace: 'n' }] },
      { egress: 1 },
    ],
    ['everything hides a Service', true, {}, { toServices: [{ name: 'b', namespace: 'n' }] }, { egress: 1 }],
    ['an Audit policy hides nothing from itself', false, {}, {}, { mode: 'Audit' }],
    ['Pass leaves as well', true, { action: 'Pass' }, { action: 'Drop' }],
    [
      'a Drop that the failsafe passes over, of its ports',
      false,
      { action: 'Drop' },
      { ports: [{ port: 6443 }] },
    ],
    ['of other ports', true, { action: 'Drop' }, { ports: [{ port: 80 }] }],
    ['of everything', false, { action: 'Drop' }, {}],
    ['of what is passed over too', true, { action: 'Drop' }, { action: 'Reject' }],
    [
      'of NodePort traffic, where there is no failsafe',
      true,
      { action: 'Drop' },
      {},
      { traffic: 'NodePort' },
    ],
  ];
  for (const [claim, expected, first, second, more] of cases) {
    it(claim, () => assert.equal(hides(first, second, more), expected));
  }

  it('ignores the failsafe if its list is empty', () => {
    assert.equal(hides({ action: 'Drop' }, {}, {}, OFF), true);
  });

  it('requires that the earlier rule applies to all Nodes of the rule', () => {
    const some = [{ nodeSelector: { matchLabels: { a: 'b' } } }];
    const all = [{ nodeSelector: {} }];
    const of = (first: object[], second: object[]): number =>
      shadowWarnings(
        policy({
          appliedTo: [],
          ingress: [
            { action: 'Allow', appliedTo: first },
            { action: 'Allow', appliedTo: second },
          ],
        }),
        RELATED,
        OFF,
      ).length;
    assert.deepEqual([of(all, some), of(some, all), of(some, some)], [1, 0, 1]);
  });

  it('resolves groups', () => {
    const group: ClusterGroup = {
      kind: 'ClusterGroup',
      apiGroup: 'nodewall.io',
      name: 'g',
      spec: { ipBlocks: [{ cidr: '10.0.0.0/8' }] },
    };
    const spec = {
      ingress: [
        { action: 'Allow', from: [{ group: 'g' }] },
        { action: 'Drop', from: [cidr('10.1.0.0/16')] },
      ],
    };
    assert.equal(shadowWarnings(policy(spec), { ...RELATED, groups: [group] }, OFF).length, 1);
  });

  it('considers earlier policies, and names the one that hides the rule', () => {
    const tier: Tier = { kind: 'Tier', apiGroup: 'nodewall.io', name: 'first', priority: 5 };
    const own = policy({ ingress: [{ action: 'Allow', ports: [{ port: 80 }] }] });
    const warnings = (spec: object, name = 'a', mine = own): string[] =>
      shadowWarnings(mine, { ...RELATED, tiers: [tier], policies: [policy(spec, name)] }, OFF);
    const drop = { ingress: [{ name: 'all', action: 'Drop' }] };
    assert.deepEqual(warnings({ ...drop, tier: 'first' }), [
      'spec.ingress[0]: can never match: a/all of another policy matches all of it first',
    ]);
    assert.equal(warnings({ ...drop, priority: 9 }).length, 1);
    assert.equal(warnings({ ...drop, priority: 11 }).length, 0, 'a later one');
    assert.equal(warnings(drop, 'a').length, 1, 'by name');
    assert.equal(warnings(drop, 'z').length, 0, 'by name');
    assert.equal(warnings({ ...drop, priority: 1 }, 'p').length, 0, 'its own former version');
    assert.equal(warnings({ ...drop, priority: 1, mode: 'Audit' }).length, 0);
    assert.equal(warnings({ ...drop, priority: 1, traffic: 'NodePort' }).length, 0);
    const pass = { ingress: [{ action: 'Pass' }], priority: 1 };
    assert.equal(warnings(pass).length, 1);
    const baseline = policy({ tier: 'baseline', ingress: [{ action: 'Allow' }] });
    assert.equal(warnings(pass, 'a', baseline).length, 0, 'what is passed comes to the baseline tier');
    assert.equal(warnings({ ...drop, priority: 1 }, 'a', baseline).length, 1);
    const policies = [policy({ ...drop, priority: 2 }, 'a'), policy({ ...pass, egress: pass.ingress }, 'b')];
    assert.equal(shadowWarnings(baseline, { ...RELATED, policies }, OFF).length, 0, 'and so past the others');
  });
});
