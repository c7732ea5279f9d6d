import assert from 'node:assert/strict';
import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { Explanation, Flow } from '../../apis/flow.ts';
import { FLOW, fromPods, ingress, nodeState, OPEN, pod } from '../../test/fake/node-state.ts';
import { cidr, policy, type Rule, tcp } from '../../test/kernel/manifests.ts';
import { explain } from './explain.ts';

function verdict(rules: readonly Omit<Rule, 'action'>[], flow: Partial<Flow>): string {
  const drops = rules.map((rule, i): Rule => ({ name: `r${i}`, action: 'Drop', ...rule }));
  return explain(
    nodeState(ingress('p', ...drops), pod('a', '10.1.0.1', 'fd00::1')),
    OPEN,
  )({ ...FLOW, ...flow }).verdict;
}

/**
 * A rule, flows that it drops, and flows that it does not; all fields that are not given are as in
 * FLOW.
 */
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
    { protocols: [{ igmp: { igmpType: 20 } }] },
    [{ protocol: 'igmp', igmpType: 20 }],
    [
      { protocol: 'igmp', igmpType: 19 },
      { protocol: 'igmp', icmpType: 20 },
    ],
  ],
  [
    'a protocol by name',
    { protocols: [{ protocol: 'vrrp' }] },
    [{ protocol: 112 }, { protocol: 112, src: '::1:1', dst: '::2' }],
    [{ protocol: 89 }, {}],
  ],
  [
    'a protocol to a group',
    { protocols: [{ protocol: 112, groupAddress: 'FF02:0::12' }] },
    [{ protocol: 112, dst: 'ff02::12' }],
    [{ protocol: 112, dst: 'ff02::1' }, { protocol: 112 }, { protocol: 89, dst: 'ff02::12' }],
  ],
  [
    'an igmp group',
    { protocols: [{ igmp: { groupAddress: '224.0.0.22' } }] },
    [{ protocol: 'igmp', dst: '224.0.0.22' }],
    [{ protocol: 'igmp', dst: '224.0.0.1' }],
  ],
];

describe('explain evaluates', () => {
  for (const [what, rule, drops, not] of FIELDS) {
    it(what, () => {
      for (const flow of drops) assert.equal(verdict([rule], flow), 'Drop', JSON.stringify(flow));
      for (const flow of not) assert.equal(verdict([rule], flow), 'Allow', JSON.stringify(flow));
    });
  }
});

describe('unknown fields of a flow', () => {
  const unknown = (field: keyof Flow): Partial<Flow> => ({ [field]: undefined });
  for (const [field, rule] of [
    ['src', { from: [cidr('198.51.100.7/32')] }],
    ['protocol', { ports: [tcp(80)] }],
    ['dstPort', { ports: [tcp(80)] }],
    ['srcPort', { ports: [{ protocol: 'TCP', sourcePort: 40000 }] }],
  ] as const) {
    it(`${field} matches only rules that do not test it`, () => {
      assert.equal(verdict([rule], {}), 'Drop');
      assert.equal(verdict([rule], unknown(field)), 'Allow');
      assert.equal(verdict([{}], unknown(field)), 'Drop');
    });
  }

  it('a type or code matches only rules that do not test it', () => {
    const types = [{ protocols: [{ icmp: { icmpType: 8 } }] }];
    assert.equal(verdict(types, { protocol: 'icmp' }), 'Allow');
    const codes = [{ protocols: [{ icmp: { icmpType: 3, icmpCode: 1 } }] }];
    assert.equal(verdict(codes, { protocol: 'icmp', icmpType: 3 }), 'Allow');
    assert.equal(verdict([{ protocols: [{ igmp: { igmpType: 20 } }] }], { protocol: 'igmp' }), 'Allow');
  });

  it('an address: the other one still determines the family', () => {
    const icmp = [{ protocols: [{ icmp: { icmpType: 8 } }] }];
    const { src: _, ...rest } = FLOW;
    const judge = explain(nodeState(ingress('p', { name: 'r', action: 'Drop', ...icmp[0] })), OPEN);
    assert.equal(judge({ ...rest, protocol: 'icmp', icmpType: 8, dst: '::1' }).verdict, 'Allow');
    assert.equal(judge({ ...rest, protocol: 'icmp', icmpType: 8 }).verdict, 'Drop');
  });

  it('all fields: only a rule for all traffic decides', () => {
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

  it('and lists the evaluated rules if asked to', () => {
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

  it("of the flow's kind of traffic", () => {
    assert.equal(judge({ ...FLOW, traffic: 'NodePort', dstPort: 81 }).reason, 'default');
    assert.equal(judge({ ...FLOW, traffic: 'Host', dstPort: 81 }).verdict, 'Drop');
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

  it('applies to its ports, protocol, direction and traffic only', () => {
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

  it('applies to its peers only', () => {
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

  it('is the reason only if it changes the verdict, and names the deciding rule', () => {
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

  it('lists the rules that it skipped', () => {
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

describe('Pass', () => {
  const pass: Rule = { name: 'pass', action: 'Pass', from: [cidr('198.51.100.0/24')] };
  const state = nodeState(
    policy('first', {
      tier: 'securityops',
      ingress: [pass, { name: 'never', action: 'Drop', ports: [tcp(80)] }],
    }),
    policy('later', { ingress: [{ name: 'reject', action: 'Reject' }] }),
    policy('base', {
      tier: 'baseline',
      ingress: [
        { name: 'open', action: 'Allow', ports: [tcp(443)] },
        { name: 'closed', action: 'Drop', ports: [tcp(80)] },
      ],
    }),
  );
  const of = (flow: Partial<Flow>) => {
    const { verdict: found, policy: name, rule, reason } = explain(state, OPEN)({ ...FLOW, ...flow });
    return `${found} ${name}/${rule} ${reason}`;
  };

  it('continues with the baseline tier', () => {
    assert.equal(of({}), 'Drop base/closed rule');
    assert.equal(of({ dstPort: 443 }), 'Allow base/open rule');
    assert.equal(of({ dstPort: 22 }), 'Allow null/null default');
    assert.equal(of({ src: '203.0.113.1' }), 'Drop first/never rule');
    assert.equal(of({ src: '203.0.113.1', dstPort: 22 }), 'Reject later/reject rule');
  });

  it('is listed, and the rules that it skipped are not', () => {
    const { considered = [] } = explain(state, OPEN)(FLOW, { considered: true });
    assert.deepEqual(
      considered.map(({ rule, outcome }) => `${rule} ${outcome}`),
      ['pass passed', 'open no match', 'closed decided'],
    );
  });

  it('is not skipped by the failsafe list, but later rules are', () => {
    const config: Config = {
      ...OPEN,
      failsafe: { ingress: [{ protocol: 'tcp', ports: [22, 22], peers: 'any' }], egress: [] },
    };
    const all = nodeState(
      policy('first', { tier: 'securityops', ingress: [{ name: 'pass', action: 'Pass' }] }),
      policy('later', { ingress: [{ name: 'never', action: 'Drop' }] }),
      policy('base', { tier: 'baseline', ingress: [{ name: 'all', action: 'Reject' }] }),
    );
    const { verdict: found, reason, skipped } = explain(all, config)({ ...FLOW, dstPort: 22 });
    assert.deepEqual([found, reason, skipped], ['Allow', 'failsafe', [{ policy: 'base', rule: 'all' }]]);
  });
});

describe('an Audit policy', () => {
  const audit = (name: string, ...rules: readonly Rule[]) => {
    const spec: object = { mode: 'Audit', tier: 'securityops', ingress: rules };
    return policy(name, spec);
  };
  const drop: Rule = { name: 'drop', action: 'Drop', ports: [tcp(80)] };

  it('is listed, and decides nothing', () => {
    const state = nodeState(
      audit('a', { name: 'pass', action: 'Pass' }, drop, { name: 'other', action: 'Drop', ports: [tcp(81)] }),
      ingress('p', { name: 'reject', action: 'Reject' }),
    );
    const answer = explain(state, OPEN)(FLOW, { considered: true });
    assert.equal(
      `${answer.verdict} ${answer.policy}/${answer.rule} ${answer.reason}`,
      'Reject p/reject rule',
    );
    assert.deepEqual(answer.audited, [
      { policy: 'a', rule: 'pass', action: 'Pass' },
      { policy: 'a', rule: 'drop', action: 'Drop' },
    ]);
    assert.deepEqual(
      answer.considered?.map(({ rule, outcome }) => `${rule} ${outcome}`),
      ['pass audited', 'drop audited', 'other no match', 'reject decided'],
    );
  });

  it('that does not match, or comes after the decision, is not listed', () => {
    const state = nodeState(
      policy('first', { tier: 'emergency', ingress: [{ name: 'allow', action: 'Allow' }] }),
      audit('a', drop),
    );
    assert.equal(explain(state, OPEN)(FLOW).audited, undefined);
  });

  it('that the failsafe list skips is not listed', () => {
    const config: Config = {
      ...OPEN,
      failsafe: { ingress: [{ protocol: 'tcp', ports: [80, 80], peers: 'any' }], egress: [] },
    };
    const state = nodeState(audit('a', { name: 'all', action: 'Drop' }, drop));
    const { reason, skipped, audited, considered } = explain(state, config)(FLOW, { considered: true });
    assert.deepEqual([reason, skipped], ['default', []]);
    assert.deepEqual(audited, [{ policy: 'a', rule: 'drop', action: 'Drop' }]);
    assert.deepEqual(
      considered?.map(({ outcome }) => outcome),
      ['skipped', 'audited'],
    );
  });
});
