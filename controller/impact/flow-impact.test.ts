import assert from 'node:assert/strict';
import type { FlowAnswer } from '../../apis/flow.ts';
import type { NodeFlow, NodeFlows } from '../../apis/node-flows.ts';
import type { ClusterObject } from '../../apis/objects.ts';
import { cidr, policy, tcp } from '../../test/kernel/manifests.ts';
import { toClusterObjects } from '../../test/properties/pipeline.ts';
import { compiler } from '../compile/compile.ts';
import { type Evaluate, FlowImpact } from './flow-impact.ts';

const node = (name: string, address: string) => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name, labels: { name } },
  status: { addresses: [{ type: 'InternalIP', address }] },
});
const A = node('a', '10.0.0.1');
const B = node('b', '10.0.0.2');
const onA = { appliedTo: [{ nodeSelector: { matchLabels: { name: 'a' } } }] };

const ANSWER = {
  policy: null,
  rule: null,
  ruleIndex: null,
  tier: null,
  reason: 'default',
  skipped: [],
} as const;

/** The first rule decides everything, and the flow's port says what Audit rules would do. */
const evaluate: Evaluate =
  ({ rules: [first], controlPlane }) =>
  ({ dstPort }): FlowAnswer => {
    if (controlPlane?.some(({ ports }) => ports[0] === dstPort)) return { ...ANSWER, verdict: 'Allow' };
    if (first === undefined) return { ...ANSWER, verdict: 'Allow' };
    const { action, source, mode } = first;
    const of = { policy: source.policy, rule: source.rule, ruleIndex: 0, tier: first.tier };
    if (mode === 'Audit') {
      const pass = { policy: 'p', rule: 'pass', action: 'Pass' } as const;
      return { ...ANSWER, verdict: 'Allow', audited: [pass, { ...of, action }] };
    }
    return { ...ANSWER, ...of, reason: 'rule', verdict: action === 'Pass' ? 'Allow' : action };
  };

function flow(more: Partial<NodeFlow> = {}): NodeFlow {
  const { peer = '10.0.0.2', port = 80 } = more;
  return {
    direction: 'ingress',
    traffic: 'Host',
    peer,
    protocol: 'tcp',
    port,
    verdict: 'Allow',
    connections: 48,
    live: 0,
    firstSeen: '2026-01-06T00:00:00Z',
    lastSeen: '2026-01-07T00:00:00Z',
    flow: { direction: 'ingress', src: '10.0.0.2', dst: '10.0.0.1', protocol: 'tcp', dstPort: port },
    decision: null,
    ...more,
  };
}

function seen(...flows: readonly NodeFlow[]): NodeFlows {
  return {
    node: 'a',
    since: '2026-01-01T00:00:00Z',
    liveAt: '2026-01-08T00:00:00Z',
    flows,
    isCut: false,
    kinds: flows.length,
    missed: { leftOut: 1, overruns: 2, busySeconds: 3 },
  };
}

function impact(before: readonly object[], after: readonly object[]): FlowImpact {
  const compile = compiler();
  const known = new WeakMap<object, ClusterObject | null>();
  const [from, to] = [before, after].map((list) => {
    const objects = toClusterObjects(list, known);
    return { objects, compiled: compile(objects) };
  });
  if (from === undefined || to === undefined) throw new Error('nothing compiled');
  return new FlowImpact(from, to, evaluate);
}

const drop = (more: object = {}) =>
  policy('p', {
    ingress: [{ name: 'r', action: 'Drop', from: [cidr('10.0.0.0/8')], ports: [tcp(80)] }],
    ...more,
  });

describe('the impact of a change on flows', () => {
  it('concerns the nodes whose rules differ, and no others', () => {
    assert.deepEqual(impact([A, B], [A, B, drop()]).concerned(), ['a', 'b']);
    assert.deepEqual(impact([A, B], [A, B, drop(onA)]).concerned(), ['a']);
    assert.deepEqual(impact([A, B, drop()], [A, B, drop()]).concerned(), []);
    // Which address a peer has is a difference too; a node that is new has seen nothing.
    const nodes = policy('p', {
      ...onA,
      ingress: [{ name: 'r', action: 'Drop', from: [{ nodeSelector: {} }] }],
    });
    const moved = node('b', '10.0.0.3');
    assert.deepEqual(impact([A, B, nodes], [A, moved, nodes]).concerned(), ['a', 'b']);
    assert.deepEqual(impact([A], [A, B, drop()]).concerned(), ['a']);
  });

  it('has how often, by whom, and which rule decides before and after', () => {
    const young = flow({ port: 81, firstSeen: '2026-01-07T23:59:00Z' });
    const { denied, allowed, folded, kinds, missed } = impact([A, B], [A, B, drop()]).of({
      flows: seen(flow(), young, flow({ peer: '10.0.0.0/24' }), flow({ allPorts: true, peer: '192.0.2.1' })),
      names: new Map(),
    });
    assert.deepEqual([allowed, folded, kinds, missed.busySeconds], [[], 2, 4, 3]);
    assert.deepEqual(
      denied.map(({ peerName, port, perHour, isPartly }) => [peerName, port, perHour, isPartly]),
      [
        // Windows of less than an hour, as if they were an hour.
        ['Node b', 81, 48, false],
        ['Node b', 80, 1, false],
        [undefined, 80, 1, true],
        [undefined, 80, 1, true],
      ],
    );
    const [{ before, after } = { before: null, after: null }] = denied;
    assert.deepEqual([before?.reason, after?.policy, after?.rule], ['default', 'p', 'r']);
  });

  it('has what is allowed, what Audit rules would deny, and whether live connections end', () => {
    const of = (before: object[], after: object[], ...flows: NodeFlow[]) =>
      impact([A, ...before], [A, ...after]).of({ flows: seen(...flows), names: new Map() });
    assert.equal(of([drop()], [], flow({ verdict: 'Drop' })).allowed.length, 1);
    const audit = of([], [drop({ mode: 'Audit' })], flow());
    assert.deepEqual([audit.denied.length, audit.allowed.length, audit.audited.length], [0, 0, 1]);
    assert.equal(of([drop({ mode: 'Audit' })], [drop({ mode: 'Audit' })], flow()).audited.length, 0);
    const passes = policy('p', { mode: 'Audit', ingress: [{ name: 'r', action: 'Allow' }] });
    assert.equal(of([], [passes], flow()).audited.length, 0);
    assert.equal(of([], [drop()], flow()).denied[0]?.endsLive, false);
    assert.equal(of([], [drop({ established: 'Recheck' })], flow()).denied[0]?.endsLive, true);
    const ended = of([drop({ established: 'Recheck' })], [drop()], flow({ verdict: 'Drop' }));
    assert.deepEqual([ended.denied, ended.allowed], [[], []]);
  });

  it('has the control plane as the node reaches it, and names where the node decides otherwise', () => {
    const to = { ports: [6443, 6443], protocol: 'tcp', peers: 'any' } as const;
    const decision: FlowAnswer = { ...ANSWER, verdict: 'Reject' };
    const { denied, otherwise } = impact([A], [A, drop()]).of({
      flows: { ...seen(flow({ port: 6443 }), flow({ decision })), controlPlane: [to] },
      names: new Map(),
    });
    assert.deepEqual([denied.map(({ port }) => port), otherwise.map(({ port }) => port)], [[80], [80]]);
  });

  it('has the addresses of names as the node knows them, and says which it does not know', () => {
    const named = policy('p', {
      egress: [{ name: 'r', action: 'Allow', to: [{ fqdn: 'a.example' }, { fqdn: 'b.example' }] }],
    });
    const names = new Map([['a.example', ['192.0.2.1']]]);
    assert.deepEqual(impact([A], [A, named]).of({ flows: seen(flow()), names }).unknownNames, ['b.example']);
  });
});
