import assert from 'node:assert/strict';
import type { NodeFlows } from '../../apis/node-flows.ts';
import type { ClusterObjects, Rule } from '../../apis/objects.ts';
import { NOW, seenKind, seenOn } from '../../test/fake/record.ts';
import { policy, tcp } from '../../test/kernel/manifests.ts';
import { toClusterObjects } from '../../test/properties/pipeline.ts';
import { AdviceCollector, type Guarantee } from './advice-collector.ts';
import { type Advice, type AdviseOptions, advise } from './advise.ts';

const CONTROL = { 'node-role.kubernetes.io/control-plane': '' };

function node(name: string, address: string, labels: Readonly<Record<string, string>> = {}): object {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels: { 'kubernetes.io/hostname': name, ...labels } },
    spec: { podCIDRs: [`10.244.${address.split('.').at(-1)}.0/24`] },
    status: { addresses: [{ type: 'InternalIP', address }] },
  };
}

function pod(
  name: string,
  address: string,
  labels: Readonly<Record<string, string>>,
  namespace = 'shop',
): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, labels },
    status: { podIPs: [{ ip: address }] },
  };
}

const NODES = [node('cp', '192.0.2.1', CONTROL), node('a', '192.0.2.2'), node('b', '192.0.2.3')];

interface Asked extends Partial<AdviseOptions> {
  readonly objects?: readonly object[];
  readonly guarantee?: Guarantee;
}

function advised(
  seen: readonly NodeFlows[],
  { objects = NODES, guarantee = () => null, ...more }: Asked = {},
): Advice {
  const cluster: ClusterObjects = toClusterObjects(objects);
  const collector = new AdviceCollector(cluster, 8);
  for (const one of seen) collector.add(one.node, one, guarantee);
  return advise(collector, cluster, {
    directions: ['ingress', 'egress'],
    maxCidrs: 4,
    tier: 'application',
    priority: 1000,
    unheard: { silent: [], notAsked: [] },
    now: NOW,
    ...more,
  });
}

/** The rules that allow something, of the only role or the one with this name. */
function rulesOf({ roles }: Advice, name = roles[0]?.name): Rule[] {
  const role = roles.find((one) => one.name === name);
  assert.ok(role !== undefined, roles.map((one) => one.name).join());
  const rules = role.policies.flatMap(({ spec: { ingress = [], egress = [] } }) => [...ingress, ...egress]);
  return rules.filter(({ action }) => action === 'Allow');
}

const onAll = (...flows: NodeFlows['flows'][number][]): NodeFlows[] =>
  ['cp', 'a', 'b'].map((name) => seenOn(name, ...flows));

const SSH = seenKind('198.51.100.1', 22);

/** The kinds on the review list, whatever the role. */
function reviewed({ review }: Advice): string[] {
  return [...new Set(review.map(({ reason, peer }) => `${reason} ${peer}`))];
}

describe('advice', () => {
  it('groups nodes by what they serve, and selects them by labels', () => {
    const ssh = seenKind('198.51.100.1', 22);
    const { roles } = advised([
      seenOn('cp', ssh, seenKind('198.51.100.1', 6443)),
      seenOn('a', ssh),
      seenOn('b', ssh),
    ]);
    assert.deepEqual(
      roles.map(({ name, nodes, selector, isByName }) => [name, nodes, selector, isByName]),
      [
        ['control-plane', ['cp'], { matchLabels: CONTROL }, false],
        [
          'worker',
          ['a', 'b'],
          { matchExpressions: [{ key: Object.keys(CONTROL)[0], operator: 'DoesNotExist' }] },
          false,
        ],
      ],
    );
  });

  it('names nodes that no label tells apart, and says so', () => {
    const more = [80, 443, 8080].map((port) => seenKind('198.51.100.1', port));
    const { roles } = advised([
      ...['cp', 'a'].map((name) => seenOn(name, seenKind('198.51.100.1', 22))),
      seenOn('b', ...more),
    ]);
    const byName = roles.find(({ nodes }) => nodes.includes('b'));
    assert.deepEqual(byName?.selector, { matchLabels: { 'kubernetes.io/hostname': 'b' } });
    assert.match(byName?.remarks.join() ?? '', /no label tells these nodes apart/);
  });

  it('has no policy for a node that not even a name selects', () => {
    const objects = [...NODES.slice(0, 2), { ...node('b', '192.0.2.3'), metadata: { name: 'b' } }];
    const more = [80, 443, 8080].map((port) => seenKind('198.51.100.1', port));
    const { roles } = advised([seenOn('cp', SSH), seenOn('a', SSH), seenOn('b', ...more)], { objects });
    const [b] = roles.filter(({ nodes }) => nodes.includes('b'));
    assert.deepEqual(b?.policies, []);
    assert.match(b?.remarks.join() ?? '', /no policy: no label selects b; give these Nodes the label/);
  });

  it('adds up what several nodes saw', () => {
    const early = seenKind('198.51.100.1', 22, { connections: 7, lastSeen: '2026-01-07T01:00:00Z' });
    const [rule] =
      advised([seenOn('cp', early), seenOn('a', SSH), seenOn('b', early)]).roles[0]?.policies[0]?.ingress ??
      [];
    const { connections, peers, lastSeen } = rule?.evidence ?? {};
    assert.deepEqual([connections, peers, lastSeen], [24, 1, '2026-01-07T12:00:00Z']);
  });

  it('says what the windows did not see', () => {
    const gaps = (since: string, more: Asked = {}) =>
      advised([{ ...seenOn('cp', SSH), since }], more).gaps.map(({ message, nodes }) => [message, nodes]);
    const window = (since: string) => gaps(since)[0]?.[0];
    assert.match(
      String(window('2026-01-07T22:00:00Z')),
      /^the window is 2 hours: jobs that run daily or weekly are not/,
    );
    assert.match(
      String(window('2026-01-06T23:00:00Z')),
      /^the window is 1 day: jobs that run weekly are not in it/,
    );
    assert.match(
      String(window('2025-01-01T00:00:00Z')),
      /^the window is 7 days: jobs that run less often than weekly/,
    );
    const young = [
      { ...seenOn('a', SSH), since: '2026-01-07T23:00:00Z' },
      seenOn('cp', SSH),
      seenOn('b', SSH),
    ];
    assert.deepEqual(advised(young).gaps[1], {
      gap: 'window',
      message:
        'the window is shorter on some nodes, at least 1 hour: jobs that run daily or weekly are not in it, unless they ran by chance',
      nodes: ['a'],
    });
    const unheard = { silent: [{ node: 'b', message: 'did not answer: late' }], notAsked: ['a'] };
    assert.deepEqual(gaps('2026-01-01T00:00:00Z', { unheard }).slice(1, 3), [
      ['did not answer: late', ['b']],
      ['not asked', ['a']],
    ]);
    const missed = { leftOut: 5, overruns: 0, busySeconds: 1200 };
    const folded = [seenKind('198.51.100.0/24', 443), { ...SSH, peer: 'x' }];
    const cut = { isCut: true, kinds: 7 };
    const all = advised([{ ...seenOn('cp', ...folded), missed, ...cut }]).gaps.map(
      ({ gap, message }) => `${gap} ${message}`,
    );
    assert.deepEqual(all.slice(1, 6), [
      'not-given 5 kinds of the inventory not in what was given',
      'folded 1 kind for many peers or ports, of which not each is known',
      'left-out 5 kinds left out of full inventories',
      'busy 1,200 seconds in which more connections began than are counted',
      'invalid 1 kind that the agents sent, not valid and left out',
    ]);
  });

  it('joins nodes that differ in one service, and says on how many it was seen', () => {
    const advice = advised([
      seenOn('cp', seenKind('198.51.100.1', 6443)),
      seenOn('a', seenKind('198.51.100.1', 22)),
      seenOn('b', seenKind('198.51.100.1', 22), seenKind('198.51.100.1', 9100)),
    ]);
    assert.deepEqual(
      advice.roles.map(({ nodes }) => nodes),
      [['cp'], ['a', 'b']],
    );
    const [worker] = advice.roles.filter(({ name }) => name === 'worker');
    const remarks = worker?.policies[0]?.ingress.flatMap(({ evidence }) => evidence?.remarks ?? []);
    assert.deepEqual(remarks, ['seen on some of the 2 nodes only: tcp 9100 on 1']);
  });

  it('selects a role’s nodes also where one of them is silent, and names that one', () => {
    const { roles } = advised([
      seenOn('cp', seenKind('198.51.100.1', 6443)),
      seenOn('a', seenKind('198.51.100.1', 22)),
    ]);
    const worker = roles.find(({ nodes }) => nodes.includes('a'));
    assert.equal(worker?.isByName, false);
    assert.match(worker?.remarks.join() ?? '', /also selects Nodes of which nothing is known: b/);
  });

  it('names Nodes, pods and Services as such, by labels that stay', () => {
    const objects = [
      ...NODES,
      pod('web-1', '10.244.2.5', { app: 'web', 'pod-template-hash': 'x1' }),
      pod('web-2', '10.244.3.5', { app: 'web', 'pod-template-hash': 'x2' }),
      pod('db-1', '10.244.3.6', { app: 'db' }),
      {
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        metadata: { name: 'db-x', namespace: 'shop', labels: { 'kubernetes.io/service-name': 'db' } },
        endpoints: [{ addresses: ['10.244.3.6'] }],
        ports: [{ protocol: 'TCP', port: 5432 }],
      },
    ];
    const rules = rulesOf(
      advised(
        onAll(
          seenKind('192.0.2.1', 4240),
          seenKind('192.0.2.2', 4240),
          seenKind('192.0.2.3', 4240),
          seenKind('10.244.2.5', 9100),
          seenKind('10.244.3.6', 5432, { direction: 'egress' }),
          seenKind('10.244.2.1', 7946),
        ),
        { objects },
      ),
    );
    const shop = { matchLabels: { 'kubernetes.io/metadata.name': 'shop' } };
    assert.deepEqual(
      rules.map(({ name, from, to, toServices }) => [name, from ?? to ?? toServices]),
      [
        ['in-tcp-4240', [{ nodeSelector: {} }]],
        ['in-tcp-7946', [{ nodeSelector: { matchLabels: { 'kubernetes.io/hostname': 'a' } } }]],
        ['in-tcp-9100', [{ podSelector: { matchLabels: { app: 'web' } }, namespaceSelector: shop }]],
        ['out-services', [{ namespace: 'shop', name: 'db' }]],
      ],
    );
  });

  it('has no address of a pod that is gone', () => {
    const advice = advised(onAll(seenKind('10.244.2.99', 9100)));
    assert.deepEqual(rulesOf(advice), []);
    assert.deepEqual(reviewed(advice), ['pod-gone 10.244.2.99']);
  });

  it('does not repeat what is accepted anyhow', () => {
    const guarantee: Guarantee = ({ port }) => (port === 10_250 ? 'failsafe' : null);
    const advice = advised(onAll(seenKind('192.0.2.1', 10_250), seenKind('198.51.100.1', 22)), { guarantee });
    assert.deepEqual(
      rulesOf(advice).map(({ name }) => name),
      ['in-tcp-22'],
    );
    assert.deepEqual(advice.roles[0]?.guaranteed, [{ by: 'failsafe', kinds: 3, connections: 30 }]);
    const denied = seenKind('192.0.2.1', 10_250, { verdict: 'Drop' });
    assert.deepEqual(reviewed(advised(onAll(denied), { guarantee })), ['denied Node cp']);
  });

  it('names protocols without ports, and their numbers where they have no names', () => {
    const [vrrp, other] = [{ protocol: 112 }, { protocol: 253 }];
    const advice = advised(onAll(seenKind('192.0.2.2', 0, vrrp), seenKind('198.51.100.1', 0, other)));
    assert.deepEqual(
      rulesOf(advice).map(({ name, ports, protocols }) => [name, ports, protocols]),
      [
        ['in-vrrp', undefined, [{ protocol: 'vrrp' }]],
        ['in-protocol-253', undefined, [{ protocol: 253 }]],
      ],
    );
    assert.deepEqual(reviewed(advice), []);
  });

  it('widens no CIDR over a source that is on the review list', () => {
    const hosts = ['198.51.100.1', '198.51.100.6'].map((peer) => seenKind(peer, 22));
    const advice = advised(onAll(...hosts, seenKind('198.51.100.4', 22, { connections: 0 })), {
      maxCidrs: 1,
    });
    assert.deepEqual(
      rulesOf(advice).map(({ from }) => from),
      [[{ ipBlock: { cidr: '198.51.100.0/29', except: ['198.51.100.4/32'] } }]],
    );
  });

  it('writes types of ICMP, and ranges of ports', () => {
    const rules = rulesOf(
      advised(
        onAll(
          seenKind('198.51.100.1', 0, { protocol: 'icmp', icmpType: 8, icmpCode: 0 }),
          ...[7000, 7001, 7002].map((port) => seenKind('198.51.100.1', port)),
        ),
      ),
    );
    assert.deepEqual(
      rules.map(({ ports, protocols }) => [ports, protocols]),
      [[[{ protocol: 'TCP', port: 7000, endPort: 7002 }], [{ icmp: { icmpType: 8 } }]]],
    );
  });

  it('closes only the direction that is asked for, and NodePorts if some were used', () => {
    const closing = (advice: Advice): unknown[] =>
      advice.roles.flatMap(({ policies }) =>
        policies.map(({ name, spec }) => [
          name,
          spec.traffic,
          spec.ingress?.at(-1)?.name,
          spec.egress?.at(-1)?.name,
        ]),
      );
    const nodePort = seenKind('198.51.100.1', 30_080, { traffic: 'NodePort' });
    assert.deepEqual(closing(advised(onAll(nodePort, SSH), { directions: ['ingress'] })), [
      ['advised-node', undefined, 'in-rest', undefined],
      ['advised-node-nodeports', 'NodePort', 'in-rest', undefined],
    ]);
    assert.deepEqual(closing(advised(onAll(nodePort, SSH), { directions: ['egress'] })), [
      ['advised-node', undefined, undefined, 'out-rest'],
    ]);
  });

  it('has at most 12 rules a role, whatever was seen', () => {
    const many = Array.from({ length: 40 }, (_, i) => seenKind(`198.51.100.${i}`, 7000 + 2 * i));
    const outward = many.map(({ peer, port }) => seenKind(peer, port ?? 0, { direction: 'egress' }));
    const nodePorts = many.map(({ peer }, i) => seenKind(peer, 30_000 + 2 * i, { traffic: 'NodePort' }));
    const { roles } = advised(onAll(...many, ...outward, ...nodePorts));
    const [role, ...others] = roles;
    const rules = role?.policies.flatMap(({ ingress, egress }) => [...ingress, ...egress]) ?? [];
    assert.deepEqual([rules.length, others], [12, []]);
    assert.ok(rules.some(({ evidence }) => evidence?.remarks.some((text) => text.startsWith('joined'))));
  });

  it('says what becomes of policies that are there, and of SSH', () => {
    const rule = { ingress: [{ name: 'r', action: 'Allow' as const, ports: [tcp(80)] }] };
    const objects = [
      ...NODES,
      policy('early', rule),
      policy('late', { ...rule, priority: 2000 }),
      policy('advised-node', rule),
    ];
    const remarks = (flows: NodeFlows[], more: Asked = {}) =>
      advised(flows, { objects, ...more }).roles[0]?.remarks;
    assert.deepEqual(remarks(onAll(seenKind('198.51.100.1', 80))), [
      'SSH (tcp 22) is in no rule: it was not seen, or is on the review list, and will be closed',
      'no connection to a NodePort was seen: NodePorts stay as they are',
      'policy advised-node exists: to apply this one replaces it',
      'evaluated before late: once it is enforced, they decide nothing on these nodes',
    ]);
    assert.doesNotMatch(remarks(onAll(seenKind('198.51.100.1', 22)))?.join() ?? '', /SSH/);
    assert.doesNotMatch(remarks(onAll(), { directions: ['egress'] })?.join() ?? '', /SSH/);
  });

  it('is the same, whatever the order of the answers and objects', () => {
    const seen = [
      seenOn('cp', seenKind('192.0.2.2', 6443), seenKind('192.0.2.3', 6443), seenKind('198.51.100.9', 22)),
      seenOn('a', seenKind('198.51.100.1', 22), seenKind('198.51.100.2', 22)),
      ...['b', 'c', 'd'].map((name) => seenOn(name, SSH, seenKind('203.0.113.9', 22, { connections: 0 }))),
    ];
    const more = [node('c', '192.0.2.4'), node('d', '192.0.2.5')];
    const backward = [...seen].reverse().map((one) => ({ ...one, flows: [...one.flows].reverse() }));
    const text = (advice: Advice): string => JSON.stringify(advice);
    assert.equal(
      text(advised(backward, { objects: [...more, ...NODES].reverse() })),
      text(advised(seen, { objects: [...NODES, ...more] })),
    );
  });

  it('knows a scanner that agents folded, however many denied peers a node has', () => {
    const denied = Array.from({ length: 5_000 }, (_, i) => ({
      ...seenKind(`203.0.${i >> 8}.${i & 255}`, 22),
      verdict: 'Drop' as const,
    }));
    const { port: _, ...folded } = { ...seenKind('198.51.100.66', 1), allPorts: true as const };
    const seen = [...denied, folded, seenKind('198.51.100.66', 22), seenKind('198.51.100.1', 22)];
    const [rule] = rulesOf(advised([seenOn('cp', ...seen)]));
    assert.deepEqual(rule?.from, [{ ipBlock: { cidr: '198.51.100.1/32' } }]);
  });

  it('makes no rule for everybody of a peer that nothing names', () => {
    const nameless = {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'b' },
      spec: { podCIDRs: ['10.244.7.0/24'] },
    };
    const objects = [node('a', '192.0.2.2'), nameless];
    assert.deepEqual(rulesOf(advised([seenOn('a', seenKind('10.244.7.1', 8472))], { objects })), []);
  });
});
