import assert from 'node:assert/strict';
import type { NodeState } from '../../apis/compiled.ts';
import { type Config, DEFAULT_CONFIG, EXEMPTIONS } from '../../apis/config.ts';
import type { Explanation, Flow } from '../../apis/flow.ts';
import { fromPods, ingress, nodeState, pod } from '../../test/fake/nodestate.ts';
import { cidr, policy, type Rule, tcp } from '../../test/kernel/manifests.ts';
import { explain } from './explain.ts';

const OPEN: Config = { ...DEFAULT_CONFIG, failsafe: { ingress: [], egress: [] } };
const FLOW: Flow = {
  direction: 'ingress',
  src: '198.51.100.7',
  dst: '192.0.2.1',
  protocol: 'tcp',
  srcPort: 40000,
  dstPort: 80,
};

function verdict(rules: readonly Omit<Rule, 'action'>[], flow: Partial<Flow>): string {
  const drops = rules.map((rule, i): Rule => ({ name: `r${i}`, action: 'Drop', ...rule }));
  return explain(
    nodeState(ingress('p', ...drops), pod('a', '10.1.0.1', 'fd00::1')),
    OPEN,
  )({ ...FLOW, ...flow }).verdict;
}

/** A rule, flows that it drops and flows that it doesn't: everything but what is given is as in FLOW. */
const FIELDS: readonly (readonly [
  what: string,
  rule: Omit<Rule, 'action'>,
  drops: readonly Partial<Flow>[],
  not: readonly Partial<Flow>[],
])[] = [
  [
    'everything',
    {},
    [{}, { protocol: 'igmp' }, { protocol: 47 }, { src: '::1', dst: '::2' }],
    [{ direction: 'egress' }],
  ],
  [
    'an address',
    { from: [cidr('198.51.100.7/32')] },
    [{}],
    [{ src: '198.51.100.8' }, { src: '::ffff:198.51.100.7', dst: '::1' }],
  ],
  [
    'a prefix',
    { from: [cidr('198.51.100.0/24')] },
    [{ src: '198.51.100.0' }, { src: '198.51.100.255' }],
    [{ src: '198.51.99.255' }, { src: '198.51.101.0' }],
  ],
  [
    'a prefix with a hole',
    { from: [{ ipBlock: { cidr: '198.51.100.0/24', except: ['198.51.100.0/29'] } }] },
    [{ src: '198.51.100.8' }],
    [{}, { src: '198.51.100.0' }],
  ],
  [
    'pods',
    { from: [fromPods('a')] },
    [{ src: '10.1.0.1' }, { src: 'fd00::1', dst: 'fd00::2' }],
    [{ src: '10.1.0.2' }],
  ],
  ['pods that are not there', { from: [fromPods('none')] }, [], [{}, { src: '10.1.0.1' }]],
  ['every IPv4 address', { from: [cidr('0.0.0.0/0')] }, [{}], [{ src: 'fd00::1', dst: 'fd00::2' }]],
  [
    'a port',
    { ports: [tcp(80)] },
    [{}],
    [{ dstPort: 81 }, { protocol: 'udp' }, { dstPort: 81, srcPort: 80 }],
  ],
  [
    'a range of ports',
    { ports: [tcp(80, 90)] },
    [{ dstPort: 80 }, { dstPort: 90 }],
    [{ dstPort: 79 }, { dstPort: 91 }],
  ],
  [
    'a source port',
    { ports: [{ protocol: 'TCP', sourcePort: 40000 }] },
    [{}, { dstPort: 1 }],
    [{ srcPort: 39999 }],
  ],
  [
    'source ports and ports',
    { ports: [{ protocol: 'TCP', port: 80, sourcePort: 40000, sourceEndPort: 40001 }] },
    [{ srcPort: 40001 }],
    [{ srcPort: 40002 }, { dstPort: 81 }],
  ],
  [
    'a protocol without ports',
    { ports: [{ protocol: 'UDP' }] },
    [{ protocol: 'udp' }, { protocol: 17 }],
    [{}, { protocol: 6 }],
  ],
  ['SCTP', { ports: [{ protocol: 'SCTP', port: 80 }] }, [{ protocol: 'sctp' }, { protocol: 132 }], [{}]],
  [
    'ports or protocols',
    { ports: [tcp(81)], protocols: [{ icmp: {} }] },
    [{ dstPort: 81 }, { protocol: 'icmp' }],
    [{}],
  ],
  [
    'icmp',
    { protocols: [{ icmp: {} }] },
    [{ protocol: 'icmp', icmpType: 8 }, { protocol: 1 }, { protocol: 'icmpv6', src: '::1', dst: '::2' }],
    [{}],
  ],
  [
    'an icmp type',
    { protocols: [{ icmp: { icmpType: 8 } }] },
    [{ protocol: 'icmp', icmpType: 8 }],
    [
      { protocol: 'icmp', icmpType: 0 },
      { protocol: 'icmpv6', icmpType: 8, src: '::1', dst: '::2' },
    ],
  ],
  [
    'an icmp code',
    { protocols: [{ icmp: { icmpType: 3, icmpCode: 1 } }] },
    [{ protocol: 'icmp', icmpType: 3, icmpCode: 1 }],
    [
      { protocol: 'icmp', icmpType: 3, icmpCode: 0 },
      { protocol: 'icmp', icmpType: 1, icmpCode: 3 },
    ],
  ],
  [
    'an icmpv6 type',
    { protocols: [{ icmpv6: { icmpType: 128 } }] },
    [{ protocol: 'icmpv6', icmpType: 128, src: '::1', dst: '::2' }],
    [{ protocol: 'icmp', icmpType: 128 }],
  ],
  [
    'an igmp type',
    { protocols: [{ igmp: { igmpType: 22 } }] },
    [{ protocol: 'igmp', igmpType: 22 }],
    [
      { protocol: 'igmp', igmpType: 17 },
      { protocol: 'igmp', icmpType: 22 },
    ],
  ],
  [
    'an igmp group',
    { protocols: [{ igmp: { groupAddress: '224.0.0.22' } }] },
    [{ protocol: 'igmp', dst: '224.0.0.22' }],
    [{ protocol: 'igmp', dst: '224.0.0.1' }],
  ],
];

describe('explain judges by', () => {
  for (const [what, rule, drops, not] of FIELDS) {
    it(what, () => {
      for (const flow of drops) assert.equal(verdict([rule], flow), 'Drop', JSON.stringify(flow));
      for (const flow of not) assert.equal(verdict([rule], flow), 'Allow', JSON.stringify(flow));
    });
  }
});

describe('what a flow leaves open', () => {
  const unknown = (field: keyof Flow): Partial<Flow> => ({ [field]: undefined });
  for (const [field, rule] of [
    ['src', { from: [cidr('198.51.100.7/32')] }],
    ['protocol', { ports: [tcp(80)] }],
    ['dstPort', { ports: [tcp(80)] }],
    ['srcPort', { ports: [{ protocol: 'TCP', sourcePort: 40000 }] }],
  ] as const) {
    it(`${field} meets only rules that do not ask about it`, () => {
      assert.equal(verdict([rule], {}), 'Drop');
      assert.equal(verdict([rule], unknown(field)), 'Allow');
      assert.equal(verdict([{}], unknown(field)), 'Drop');
    });
  }

  it('a type or code likewise', () => {
    const types = [{ protocols: [{ icmp: { icmpType: 8 } }] }];
    assert.equal(verdict(types, { protocol: 'icmp' }), 'Allow');
    const codes = [{ protocols: [{ icmp: { icmpType: 3, icmpCode: 1 } }] }];
    assert.equal(verdict(codes, { protocol: 'icmp', icmpType: 3 }), 'Allow');
    assert.equal(verdict([{ protocols: [{ igmp: { igmpType: 22 } }] }], { protocol: 'igmp' }), 'Allow');
  });

  it('an end: the other one still tells the family', () => {
    const icmp = [{ protocols: [{ icmp: { icmpType: 8 } }] }];
    const { src: _, ...rest } = FLOW;
    const judge = explain(nodeState(ingress('p', { name: 'r', action: 'Drop', ...icmp[0] })), OPEN);
    assert.equal(judge({ ...rest, protocol: 'icmp', icmpType: 8, dst: '::1' }).verdict, 'Allow');
    assert.equal(judge({ ...rest, protocol: 'icmp', icmpType: 8 }).verdict, 'Drop');
  });

  it('everything: only a rule for all traffic decides', () => {
    const judge = explain(
      nodeState(
        ingress(
          'p',
          { name: 'narrow', action: 'Reject', ports: [tcp(80)] },
          { name: 'wide', action: 'Drop' },
        ),
      ),
      OPEN,
    );
    assert.equal(judge({ direction: 'ingress' }).rule, 'wide');
  });
});

describe('explain takes the first rule that matches', () => {
  const state = nodeState(
    policy('b', {
      priority: 5,
      ingress: [
        { name: 'second', action: 'Drop' },
        { name: 'never', action: 'Allow' },
      ],
    }),
    policy('a', { priority: 5, ingress: [{ name: 'first', action: 'Allow', ports: [tcp(80)] }] }),
    policy('early', {
      priority: 9000,
      tier: 'emergency',
      ingress: [{ name: 'ssh', action: 'Reject', ports: [tcp(22)] }],
    }),
    policy('out', { egress: [{ name: 'smtp', action: 'Drop', ports: [tcp(25)] }] }),
  );
  const judge = explain(state, OPEN);

  it('by tier, priority, name and place', () => {
    const of = (flow: Partial<Flow>) => {
      const { policy: name, rule, ruleIndex, tier, verdict: found, reason } = judge({ ...FLOW, ...flow });
      return [found, name, rule, ruleIndex, tier, reason].join(' ');
    };
    assert.equal(of({ dstPort: 22 }), 'Reject early ssh 0 emergency rule');
    assert.equal(of({ dstPort: 80 }), 'Allow a first 0 application rule');
    assert.equal(of({ dstPort: 81 }), 'Drop b second 0 application rule');
    assert.equal(of({ direction: 'egress', dstPort: 25 }), 'Drop out smtp 0 application rule');
    assert.equal(of({ direction: 'egress', dstPort: 26 }), 'Allow     default');
  });

  it('and shows those that were tried, where asked for', () => {
    const shown = ({ considered = [] }: Explanation) =>
      considered.map(({ policy: name, rule, mismatch, outcome }) => `${name}/${rule} ${mismatch} ${outcome}`);
    assert.deepEqual(shown(judge({ ...FLOW, dstPort: 81 }, { considered: true })), [
      'early/ssh service no match',
      'a/first service no match',
      'b/second null decided',
    ]);
    assert.equal(judge(FLOW).considered, undefined);
    const peers = explain(
      nodeState(ingress('p', { name: 'r', action: 'Drop', from: [cidr('10.0.0.0/8')] })),
      OPEN,
    );
    assert.deepEqual(shown(peers(FLOW, { considered: true })), ['p/r address no match']);
    const exempt = judge({ ...FLOW, src: '192.0.2.1' }, { considered: true });
    assert.deepEqual([exempt.reason, exempt.considered], ['exempt', []]);
  });

  it('of the traffic that the flow is', () => {
    assert.equal(judge({ ...FLOW, traffic: 'NodePort', dstPort: 81 }).reason, 'default');
    assert.equal(judge({ ...FLOW, traffic: 'Host', dstPort: 81 }).verdict, 'Drop');
  });
});

describe('exemptions', () => {
  const deny = nodeState(
    policy('deny', { ingress: [{ name: 'in', action: 'Drop' }], egress: [{ name: 'out', action: 'Drop' }] }),
  );
  const nd = { protocol: 'icmpv6', src: 'fe80::1', dst: 'fe80::2' } as const;
  const cases: readonly (readonly [
    (typeof EXEMPTIONS)[number],
    readonly Partial<Flow>[],
    readonly Partial<Flow>[],
  ])[] = [
    [
      'loopback',
      [
        { src: '127.0.0.1', dst: '127.9.9.9' },
        { src: '192.0.2.1' },
        { src: '::1', dst: '::1' },
        { direction: 'egress', src: '192.0.2.1', dst: '127.0.0.1' },
      ],
      [
        { src: '127.0.0.1', dst: '192.0.2.2' },
        { src: '128.0.0.1', dst: '127.0.0.1' },
        { src: '::2', dst: '::1' },
      ],
    ],
    [
      'neighborDiscovery',
      [133, 134, 135, 136].map((icmpType) => ({ ...nd, icmpType })),
      [{ ...nd, icmpType: 137 }, { ...nd }, { protocol: 'icmp', icmpType: 135 }],
    ],
    [
      'multicastListener',
      [130, 131, 132, 143].map((icmpType) => ({ ...nd, icmpType, direction: 'egress' as const })),
      [
        { ...nd, icmpType: 129 },
        { ...nd, icmpType: 128 },
      ],
    ],
    [
      'dhcpClient',
      [
        { protocol: 'udp', srcPort: 67, dstPort: 68 },
        { protocol: 'udp', srcPort: 68, dstPort: 67, direction: 'egress' },
        { protocol: 'udp', srcPort: 547, dstPort: 546, src: 'fe80::1', dst: 'fe80::2' },
        { protocol: 'udp', srcPort: 546, dstPort: 547, src: 'fe80::1', dst: 'fe80::2', direction: 'egress' },
      ],
      [
        { protocol: 'udp', srcPort: 68, dstPort: 67 },
        { protocol: 'udp', srcPort: 67, dstPort: 68, direction: 'egress' },
        { protocol: 'tcp', srcPort: 67, dstPort: 68 },
        { protocol: 'udp', srcPort: 547, dstPort: 546 },
        { protocol: 'udp', srcPort: 67, dstPort: 68, src: 'fe80::1', dst: 'fe80::2' },
      ],
    ],
    [
      'localPods',
      [
        { direction: 'egress', interfaceGroup: 'pods' },
        { direction: 'egress', interfaceGroup: 8 },
      ],
      [{ interfaceGroup: 'pods' }, { direction: 'egress', interfaceGroup: 9 }, { direction: 'egress' }],
    ],
  ];
  for (const [name, exempt, not] of cases) {
    it(`${name}: accepted before any policy, unless turned off`, () => {
      const off: Config = { ...OPEN, exemptions: { ...OPEN.exemptions, [name]: false } };
      for (const flow of exempt) {
        const { verdict: found, reason, exemption } = explain(deny, OPEN)({ ...FLOW, ...flow });
        assert.deepEqual([found, reason, exemption], ['Allow', 'exempt', name], JSON.stringify(flow));
        assert.equal(
          explain(deny, off)({ ...FLOW, ...flow }).verdict,
          'Drop',
          `off: ${JSON.stringify(flow)}`,
        );
      }
      for (const flow of not)
        assert.equal(explain(deny, OPEN)({ ...FLOW, ...flow }).verdict, 'Drop', JSON.stringify(flow));
    });
  }
  it('are all tried here', () => {
    assert.deepEqual(
      cases.map(([name]) => name),
      EXEMPTIONS,
    );
  });
});

describe('the failsafe list', () => {
  const config = (peers: 'nodes' | 'any' | readonly string[]): Config => ({
    ...OPEN,
    failsafe: { ingress: [{ protocol: 'tcp', ports: [6443, 6444], peers }], egress: [] },
  });
  const answer = (
    rules: readonly Rule[],
    flow: Partial<Flow>,
    peers: Parameters<typeof config>[0] = 'any',
  ) => {
    const {
      verdict: found,
      reason,
      rule,
      skipped,
    } = explain(state(rules), config(peers))({ ...FLOW, dstPort: 6443, ...flow });
    return [found, reason, rule, ...skipped.map((one) => `without ${one.policy}/${one.rule}`)].join(' ');
  };
  const state = (rules: readonly Rule[]): NodeState => nodeState(ingress('p', ...rules));
  const blanket: Rule = { name: 'all', action: 'Drop' };

  it('skips a blanket Drop or Reject', () => {
    assert.equal(answer([blanket], {}), 'Allow failsafe  without p/all');
    assert.equal(answer([{ ...blanket, action: 'Reject' }], {}), 'Allow failsafe  without p/all');
    assert.equal(
      answer([{ ...blanket, from: [cidr('198.51.100.0/24')] }], {}),
      'Allow failsafe  without p/all',
    );
  });

  it('skips no rule that names ports or protocols', () => {
    assert.equal(answer([{ ...blanket, ports: [tcp(6443)] }], {}), 'Drop rule all');
    assert.equal(answer([{ ...blanket, ports: [{ protocol: 'TCP' }] }], {}), 'Drop rule all');
    assert.equal(
      answer([{ ...blanket, ports: [tcp(6443)], protocols: [{ icmp: {} }] }], {}),
      'Drop rule all',
    );
  });

  it('is for its ports, protocol, direction and traffic', () => {
    for (const flow of [
      { dstPort: 6442 },
      { dstPort: 6445 },
      { protocol: 'udp' },
      { srcPort: 6443, dstPort: 1 },
    ] as const) {
      assert.equal(answer([blanket], flow), 'Drop rule all', JSON.stringify(flow));
    }
    assert.equal(answer([blanket], { dstPort: 6444 }), 'Allow failsafe  without p/all');
    assert.equal(answer([blanket], { traffic: 'NodePort' }), 'Allow default ');
  });

  it('is for its peers', () => {
    assert.equal(answer([blanket], {}, ['198.51.100.0/25']), 'Allow failsafe  without p/all');
    assert.equal(answer([blanket], {}, ['198.51.100.128/25', '10.0.0.1']), 'Drop rule all');
    assert.equal(answer([blanket], {}, 'nodes'), 'Drop rule all');
    assert.equal(
      answer([blanket], { src: '192.0.2.1', dst: '192.0.2.9' }, 'nodes'),
      'Allow failsafe  without p/all',
    );
    const { src: _, ...rest } = FLOW;
    const judge = explain(state([blanket]), config('nodes'));
    assert.equal(judge({ ...rest, dstPort: 6443 }).verdict, 'Drop', 'an unknown peer is no node');
  });

  it('says so only where the verdict is another, and names what decided', () => {
    const open: Rule = { name: 'open', action: 'Allow', ports: [tcp(6443)] };
    const closed: Rule = { name: 'closed', action: 'Drop', ports: [tcp(6443)] };
    assert.equal(answer([open, blanket], {}), 'Allow rule open');
    assert.equal(answer([blanket, open], {}), 'Allow failsafe open without p/all');
    assert.equal(answer([blanket, closed], {}), 'Drop rule closed without p/all');
    assert.equal(
      answer([{ ...blanket, action: 'Reject' }, closed], {}),
      'Drop failsafe closed without p/all',
    );
    assert.equal(
      answer([blanket, { ...blanket, name: 'again', action: 'Reject' }], {}),
      'Allow failsafe  without p/all without p/again',
    );
  });

  it('shows what it skipped', () => {
    const { considered = [] } = explain(state([blanket]), config('any'))(
      { ...FLOW, dstPort: 6443 },
      { considered: true },
    );
    assert.deepEqual(
      considered.map(({ outcome, mismatch }) => [outcome, mismatch]),
      [['skipped', null]],
    );
  });
});
