import assert from 'node:assert/strict';
import type { ClusterNetworkPolicy, ClusterNetworkPolicySpec, Rule } from '../../apis/objects.ts';
import { fakeNode } from '../../test/fake/egress-objects.ts';
import { dualStackNodes, oneFamilyWarnings } from './family-risks.ts';

const NODES = [
  fakeNode('four', ['192.0.2.1'], { labels: { of: 'one' } }),
  fakeNode('both', ['192.0.2.2', '2001:db8::2'], { labels: { of: 'both' } }),
];
const GROUP = {
  kind: 'ClusterGroup',
  apiGroup: 'nodewall.io',
  name: 'office',
  spec: { ipBlocks: [{ cidr: '198.51.100.0/24' }, { cidr: '203.0.113.0/24' }] },
} as const;

function warnings(spec: Partial<ClusterNetworkPolicySpec>, nodes = NODES): string[] {
  const policy: ClusterNetworkPolicy = {
    kind: 'ClusterNetworkPolicy',
    apiGroup: 'nodewall.io',
    name: 'p',
    uid: '',
    generation: 1,
    spec: { priority: 5, appliedTo: [{ nodeSelector: {} }], ...spec },
  };
  return oneFamilyWarnings(policy, { groups: [GROUP] }, dualStackNodes({ nodes }));
}

const blocks = (...cidrs: string[]) => cidrs.map((cidr) => ({ ipBlock: { cidr } }));
const drop = (from: NonNullable<Rule['from']>, more: Partial<Rule> = {}): Rule => {
  return { action: 'Drop', from, ...more };
};
const allow = (from: NonNullable<Rule['from']>, more: Partial<Rule> = {}): Rule => {
  return { action: 'Allow', from, ...more };
};

describe('the warning that a rule has CIDRs of one family alone', () => {
  it('says by the action what becomes of the other family, and on which Node', () => {
    for (const [rule, text] of [
      [
        drop(blocks('0.0.0.0/0')),
        'has peers of IPv4 alone, so it leaves IPv6 open, which both has too; name those of IPv6, or ::/0 for all',
      ],
      [
        { ...drop(blocks('2001:db8::/32')), action: 'Reject' },
        'has peers of IPv6 alone, so it leaves IPv4 open, which both has too; name those of IPv4, or 0.0.0.0/0 for all',
      ],
      [
        allow([{ group: 'office' }], { ports: [{ port: 22 }] }),
        'has peers of IPv4 alone, so it does not open IPv6, which both has too; name those of IPv6, or ::/0 for all',
      ],
    ] as const)
      assert.deepEqual(warnings({ ingress: [rule] }), [`spec.ingress[0]: ${text}`]);
    const to = blocks('10.0.0.0/8');
    assert.match(
      warnings({ egress: [{ action: 'Allow', to }] }).join(),
      /^spec\.egress\[0\]: .* does not open IPv6/,
    );
  });

  it('is one for all such rules of a direction', () => {
    const [text, ...more] = warnings({
      ingress: [1, 2, 3].map((n) => drop(blocks(`10.${n}.0.0/16`), { ports: [{ port: n }] })),
    });
    assert.match(
      text ?? '',
      /^spec\.ingress\[0\]: has peers of IPv4 alone \(so has each of 3 such rules\), /,
    );
    assert.ok((text ?? '').length < 256);
    assert.deepEqual(more, []);
  });

  it('is given without a Node for whole families only', () => {
    assert.match(
      warnings({ ingress: [drop(blocks('0.0.0.0/0'))] }, []).join(),
      /leaves IPv6 open, where a Node has it too/,
    );
    assert.deepEqual(warnings({ ingress: [drop(blocks('10.0.0.0/8'))] }, []), []);
  });

  const v4 = blocks('10.0.0.0/8');
  const ports = [{ port: 22 }];
  for (const [what, spec] of [
    ['peers of both', { ingress: [drop(blocks('0.0.0.0/0', '::/0'))] }],
    ['a peer that is no CIDR', { ingress: [allow([...v4, { nodeSelector: {} }])] }],
    ['no peers', { ingress: [{ action: 'Drop' }] }],
    [
      'another rule for the other family',
      { ingress: [allow(v4, { ports }), allow(blocks('fd00::/8'), { ports })] },
    ],
    ['another rule for all', { ingress: [drop(v4, { ports }), { action: 'Reject' }] }],
    [
      'ICMP of one family',
      { ingress: [allow(v4, { protocols: [{ icmp: { icmpType: 8 } }, { igmp: {} }, { protocol: 1 }] })] },
    ],
    [
      'a multicast group, which is of one family',
      { ingress: [allow(v4, { protocols: [{ protocol: 'vrrp', groupAddress: '224.0.0.18' }] })] },
    ],
    ['an Audit policy', { mode: 'Audit', ingress: [drop(v4)] }],
    ['Nodes of one', { appliedTo: [{ nodeSelector: { matchLabels: { of: 'one' } } }], ingress: [drop(v4)] }],
  ] as const)
    it(`is not given for ${what}`, () => assert.deepEqual(warnings(spec), []));

  for (const [what, spec] of [
    ['of another action', { ingress: [allow(v4, { ports }), drop(blocks('::/0'), { ports })] }],
    [
      'for other ports',
      { ingress: [allow(v4, { ports }), allow(blocks('fd00::/8'), { ports: [{ port: 80 }] })] },
    ],
    ['of another direction', { ingress: [drop(v4)], egress: [{ action: 'Drop' }] }],
  ] as const)
    it(`is given beside a rule ${what}`, () =>
      assert.match(warnings(spec).join(), /^spec\.ingress\[0\]: has peers of IPv4 alone,/));
});
