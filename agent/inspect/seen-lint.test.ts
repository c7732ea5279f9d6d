import assert from 'node:assert/strict';
import type { FlowAnswer } from '../../apis/flow.ts';
import type { NodeFlow } from '../../apis/node-flows.ts';
import type { CountedRule } from '../../apis/rule-counts.ts';
import { nodeState } from '../../test/fake/node-state.ts';
import { cidr, policy, tcp, udp } from '../../test/kernel/manifests.ts';
import { ruleWidth } from './rule-counts.ts';
import { type NodeObservation, seenLint } from './seen-lint.ts';

const NOW = Date.parse('2026-01-08T00:00:00Z');
const FROM = NOW - 5 * 86_400_000;
const OLD = '2026-01-01T00:00:00Z';
const YOUNG = '2026-01-07T00:00:00Z';

function rule(more: Partial<CountedRule> = {}): CountedRule {
  return {
    id: 'r',
    direction: 'ingress',
    tier: 't',
    policy: 'web',
    apiGroup: 'nodewall.io',
    rule: 'in',
    ruleIndex: 0,
    action: 'Allow',
    mode: 'Enforce',
    traffic: 'Host',
    packets: 1,
    bytes: 1,
    lastHit: YOUNG,
    since: OLD,
    width: { v4: 0, v6: 0, ports: 65_536 },
    ...more,
  };
}

const DECISION: FlowAnswer = {
  verdict: 'Allow',
  policy: 'web',
  rule: 'in',
  ruleIndex: 0,
  tier: 't',
  reason: 'rule',
  skipped: [],
};

function flow(peer: string, port: number, more: Partial<NodeFlow> = {}): NodeFlow {
  return {
    direction: 'ingress',
    traffic: 'Host',
    peer,
    protocol: 'tcp',
    port,
    verdict: 'Allow',
    connections: 1,
    live: 0,
    firstSeen: OLD,
    lastSeen: YOUNG,
    flow: { direction: 'ingress' },
    decision: DECISION,
    ...more,
  };
}

function on(node: string, rules: CountedRule[], flows: NodeFlow[], since = OLD): NodeObservation {
  const counts = { node, rules, spoofed: { packets: 0, bytes: 0, lastHit: null }, remark: null };
  const missed = { leftOut: 0, overruns: 0, busySeconds: 0 };
  const seen = { node, since, liveAt: null, flows, isCut: false, kinds: flows.length, missed };
  return { counts, flows: seen };
}

const of = (...nodes: NodeObservation[]) =>
  seenLint(nodes, FROM).findings.map(({ kind, nodes: where, networks, services }) =>
    [kind, where.join(), networks.join(), services.join()].join(' | '),
  );

describe('lint by what was seen', () => {
  it('finds rules without a hit on any node, that all of them count for long enough', () => {
    const unhit = rule({ packets: 0, lastHit: null });
    assert.deepEqual(of(on('b', [unhit], []), on('a', [unhit], [])), ['not-hit | a,b |  | ']);
    assert.deepEqual(of(on('a', [unhit], []), on('b', [rule()], [])), []);
    const young = seenLint([on('a', [unhit], []), on('b', [{ ...unhit, since: YOUNG }], [])], FROM);
    assert.deepEqual([young.findings, young.tooYoung], [[], 1]);
  });

  it('finds rules that allow more networks and ports than were seen, over all nodes', () => {
    const flows = [
      flow('10.0.1.5', 443),
      flow('10.0.1.9', 443),
      flow('10.0.2.0/24', 8443),
      flow('fd00::1:0:0:0:5', 443),
    ];
    assert.deepEqual(of(on('a', [rule()], flows)), [
      'wider-than-seen | a | 10.0.1.0/24,10.0.2.0/24,fd00:0:0:1::/64 | tcp 443,tcp 8443',
    ]);
    const many = ['10.1.1.1', '10.1.2.1', '10.1.3.1'].map((peer) => flow(peer, 22));
    assert.deepEqual(of(on('a', [rule()], flows), on('b', [rule()], many)), [
      'wider-than-seen | a,b |  | tcp 22,tcp 443,tcp 8443',
    ]);
    const narrow = (width: CountedRule['width']) =>
      of(on('a', [{ ...rule(), ...(width && { width }) }], flows));
    assert.deepEqual(narrow({ v4: 17, v6: null, ports: 99 }), []);
    assert.deepEqual(narrow({ v4: 16, v6: null, ports: 99 }).length, 1);
    assert.deepEqual(narrow({ v4: null, v6: 48, ports: 99 }).length, 1);
    assert.deepEqual(narrow({ v4: null, v6: 49, ports: 100 }), ['wider-than-seen | a |  | tcp 443,tcp 8443']);
    // Nothing can be said of a family of which nothing was seen.
    assert.deepEqual(
      of(on('a', [rule({ width: { v4: null, v6: 0, ports: 1 } })], [flow('10.0.0.1', 1)])),
      [],
    );
  });

  it('says nothing of rules that are not watched for so long, or whose kinds are folded to all', () => {
    const flows = [flow('10.0.1.5', 443)];
    const young = seenLint([on('a', [rule()], flows), on('b', [rule()], flows, YOUNG)], FROM);
    assert.deepEqual([young.findings, young.unseen], [[], ['b']]);
    const justSo = new Date(FROM + 3_600_000).toISOString();
    assert.equal(of(on('a', [rule()], flows, justSo)).length, 1, 'a window of all that is kept');
    const none = seenLint([{ ...on('a', [rule()], flows), flows: null }], FROM);
    assert.deepEqual([none.findings, none.unseen], [[], ['a']]);
    const all = flow('0.0.0.0/0', 443, { allPorts: true });
    assert.deepEqual(of(on('a', [rule()], [...flows, all])), []);
    const ofAnother = { ...all, decision: { ...DECISION, policy: 'other' } };
    assert.deepEqual(of(on('a', [rule()], [...flows, ofAnother])), [], 'one example, which another decides');
    for (const elsewhere of [{ direction: 'egress' }, { traffic: 'NodePort' }, { verdict: 'Drop' }] as const)
      assert.equal(of(on('a', [rule()], [...flows, { ...ofAnother, ...elsewhere }])).length, 1);
    for (const other of [
      { mode: 'Audit' },
      { action: 'Drop' },
      { direction: 'egress' },
      { ruleIndex: 1 },
    ] as const)
      assert.deepEqual(of(on('a', [rule(other)], flows)), [], JSON.stringify(other));
    assert.deepEqual(of(on('a', [rule()], [])), [], 'a rule that decided no kind of flows');
  });

  it('finds Drop rules that the failsafe list skips, by flows of the window', () => {
    const skipped = [{ policy: 'web', rule: 'rest' }];
    const decision: FlowAnswer = { ...DECISION, policy: null, rule: null, reason: 'failsafe', skipped };
    const kept = flow('10.0.0.2', 10_250, { decision });
    const old = flow('10.0.0.2', 22, { decision, lastSeen: '2026-01-02T00:00:00Z' });
    assert.deepEqual(of(on('a', [], [kept, old], YOUNG), on('b', [], [kept])), [
      'failsafe-in-effect | a,b | 10.0.0.0/24 | tcp 10250',
    ]);
    // A flow's time is a whole second: that of the window's begin counts.
    const since = (milliseconds: number) =>
      seenLint([on('a', [], [kept])], Date.parse(YOUNG) + milliseconds).findings.length;
    assert.deepEqual([0, 500, 999, 1_000].map(since), [1, 1, 1, 0]);
  });
});

describe('the width of a rule', () => {
  const width = (more: object) => {
    const state = nodeState(policy('p', { ingress: [{ name: 'r', action: 'Allow', ...more }] }));
    const [first] = state.rules;
    assert.ok(first !== undefined);
    return ruleWidth(first, state);
  };

  it('is its shortest prefix of each family, and its widest service', () => {
    assert.deepEqual(width({}), { v4: 0, v6: 0, ports: 65_536 });
    assert.deepEqual(width({ from: [cidr('10.0.0.0/8'), cidr('192.0.2.1/32')], ports: [tcp(80)] }), {
      v4: 8,
      v6: null,
      ports: 1,
    });
    assert.deepEqual(width({ from: [cidr('fd00::/48')], ports: [tcp(1, 100), udp(5)] }), {
      v4: null,
      v6: 48,
      ports: 100,
    });
    assert.equal(width({ from: [cidr('192.0.2.1/32')] })?.v4, 32);
    assert.equal(width({ ports: [{ protocol: 'TCP' }] })?.ports, 65_536);
    assert.equal(width({ protocols: [{ icmp: { icmpType: 8 } }] })?.ports, null);
    assert.equal(width({ from: [{ interfaceGroup: 'pods' }] }), null);
  });
});
