import assert from 'node:assert/strict';
import { type AddressSet, type Compiled, type CompiledRule, namedBy } from '../../apis/compiled.ts';
import type {
  ApiGroup,
  ClusterGroup,
  ClusterGroupSpec,
  ClusterNetworkPolicy,
  ClusterNetworkPolicySpec,
  ClusterObjects,
  EndpointSlice,
  LabelSelector,
  Node,
  Pod,
  Rule,
  Service,
  ServicePort,
} from '../../apis/objects.ts';
import { formatMembers } from '../../lib/net/member-set.ts';
import { fromSet } from '../../test/fake/node-state.ts';
import { plainCompiled } from '../../test/properties/pipeline.ts';
import { compile, compiler } from './compile.ts';

const labelled = (name: string): LabelSelector => ({ matchLabels: { name } });
const node = (name: string, ...addresses: string[]): Node => ({
  kind: 'Node',
  name,
  labels: { name },
  addresses,
});
const pod = (namespace: string, name: string, ...addresses: string[]): Pod => ({
  kind: 'Pod',
  namespace,
  name,
  labels: { name },
  serviceAccount: 'default',
  addresses,
});
const group = (name: string, spec: ClusterGroupSpec, apiGroup: ApiGroup = 'nodewall.io'): ClusterGroup => ({
  kind: 'ClusterGroup',
  apiGroup,
  name,
  spec,
});
const service = (name: string, fields: Partial<Service>): Service => ({
  kind: 'Service',
  namespace: 'shop',
  name,
  selector: null,
  clusterIPs: [],
  ports: [],
  ...fields,
});
const slice = (of: string, addresses: string[], ...ports: ServicePort[]): EndpointSlice => ({
  kind: 'EndpointSlice',
  namespace: 'shop',
  name: `${of}-${addresses.join('-')}`,
  service: of,
  addresses,
  ports,
});
const policy = (
  name: string,
  spec: Partial<ClusterNetworkPolicySpec>,
  apiGroup: ApiGroup = 'nodewall.io',
): ClusterNetworkPolicy => ({
  kind: 'ClusterNetworkPolicy',
  apiGroup,
  name,
  uid: '',
  generation: 0,
  spec: { priority: 5, appliedTo: [{ nodeSelector: {} }], ...spec },
});
/** One policy for each rule. */
const from = (...peers: NonNullable<Rule['from']>): ClusterNetworkPolicy =>
  policy(`p-${JSON.stringify(peers)}`, { ingress: [{ action: 'Drop', from: peers }] });

function cluster(fields: Partial<ClusterObjects>): ClusterObjects {
  return {
    nodes: [node('one', '10.0.0.1'), node('two', '10.0.0.2')],
    namespaces: [],
    pods: [pod('shop', 'web', '10.1.0.1'), pod('lost', 'web', '10.1.0.2'), pod('shop', 'db', '10.1.0.3')],
    services: [],
    endpointSlices: [],
    groups: [],
    tiers: [],
    policies: [],
    guardrails: [],
    egressGateways: [],
    egressPolicies: [],
    insideNetworks: [],
    ...fields,
  };
}

function ruleOf(compiled: Compiled, name: string): CompiledRule {
  const rule = compiled.policies.find((one) => one.name === name)?.rules[0];
  assert.ok(rule !== undefined, name);
  return rule;
}

function setOf(compiled: Compiled, name: string): AddressSet {
  const [id = ''] = namedBy([ruleOf(compiled, name)]).addressSets;
  const set = compiled.addressSets.get(id);
  assert.ok(set !== undefined, `${name} has an AddressSet`);
  return set;
}

/** The members of a group, as a peer. */
function membersOf(spec: ClusterGroupSpec, fields: Partial<ClusterObjects> = {}): string[] {
  const groups = [group('g', spec), ...(fields.groups ?? [])];
  const one = from({ group: 'g' });
  return formatMembers(setOf(compile(cluster({ ...fields, groups, policies: [one] })), one.name).members);
}

describe('a ClusterGroup as a peer', () => {
  it('stands for the objects that it selects', () => {
    assert.deepEqual(membersOf({ podSelector: labelled('web') }), ['10.1.0.1', '10.1.0.2']);
    assert.deepEqual(
      membersOf({ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'lost' } } }),
      ['10.1.0.2'],
    );
    assert.deepEqual(membersOf({ nodeSelector: labelled('two') }), ['10.0.0.2']);
    assert.deepEqual(
      membersOf({ ipBlocks: [{ cidr: '10.0.0.0/30', except: ['10.0.0.0/31'] }, { cidr: 'fd00::/8' }] }),
      ['10.0.0.2/31', 'fd00::/8'],
    );
  });

  it('stands for the members of its children', () => {
    const groups = [
      group('a', { nodeSelector: labelled('one') }),
      group('b', { ipBlocks: [{ cidr: '192.0.2.0/24' }] }),
    ];
    assert.deepEqual(membersOf({ childGroups: ['a', 'b', 'a'] }, { groups }), ['10.0.0.1', '192.0.2.0/24']);
  });

  it('matches nothing when it is empty', () => {
    for (const spec of [{}, { ipBlocks: [] }, { childGroups: [] }, { podSelector: labelled('none') }]) {
      assert.deepEqual(membersOf(spec), [], JSON.stringify(spec));
    }
  });

  it('shares its AddressSet with rules that have the same selectors', () => {
    const selector = { podSelector: labelled('web'), namespaceSelector: {} };
    const block = { cidr: '10.9.0.0/16' };
    const groups = [
      group('pods', selector),
      group('blocks', { ipBlocks: [block] }),
      group('both', { childGroups: ['blocks', 'pods'] }),
    ];
    const policies = [
      from(selector, { ipBlock: block }),
      from({ group: 'both' }),
      from({ group: 'blocks' }, { group: 'pods' }),
      from({ group: 'pods' }, { ipBlock: block }),
    ];
    const compiled = compile(cluster({ groups, policies }));
    assert.equal(new Set(policies.map(({ name }) => setOf(compiled, name).id)).size, 1);
    const { description } = setOf(compiled, policies[1]?.name ?? '');
    assert.equal(description, 'pods name=web in namespaces {}; 10.9.0.0/16');
  });

  it('is looked up in the policy’s own API group first, then in the other', () => {
    const groups = [
      group('g', { nodeSelector: labelled('one') }),
      group('g', { nodeSelector: labelled('two') }, 'crd.antrea.io'),
      group('only', { ipBlocks: [{ cidr: '192.0.2.0/24' }] }, 'crd.antrea.io'),
    ];
    const ingress: Rule[] = [{ action: 'Drop', from: [{ group: 'g' }] }];
    const policies = [
      policy('ours', { ingress }),
      policy('theirs', { ingress }, 'crd.antrea.io'),
      policy('other', { ingress: [{ action: 'Drop', from: [{ group: 'only' }] }] }),
    ];
    for (const order of [groups, groups.toReversed()]) {
      const compiled = compile(cluster({ groups: order, policies }));
      const members = policies.map(({ name }) => formatMembers(setOf(compiled, name).members));
      assert.deepEqual(members, [['10.0.0.1'], ['10.0.0.2'], ['192.0.2.0/24']]);
    }
  });

  it('with a serviceReference stands for the pods that the Service selects in its namespace', () => {
    const serviceReference = { namespace: 'shop', name: 'web' };
    const spec = { serviceReference };
    const services = [service('web', { selector: { name: 'web' } })];
    assert.deepEqual(membersOf(spec, { services }), ['10.1.0.1']);
    assert.deepEqual(membersOf(spec, { services: [service('web', { selector: null })] }), []);
    assert.deepEqual(membersOf(spec, { services: [service('web', { selector: {} })] }), []);
    assert.deepEqual(membersOf(spec, {}), [], 'a Service that is not there');
    const one = from({ group: 'g' });
    const set = setOf(compile(cluster({ groups: [group('g', spec)], policies: [one] })), one.name);
    assert.deepEqual([set.description, set.dynamic], ['pods of service shop/web', true]);
  });

  it('names the policy in the error if the group is missing', () => {
    assert.throws(
      () => compile(cluster({ policies: [policy('p', { appliedTo: [{ group: 'gone' }] })] })),
      /^Error: ClusterNetworkPolicy\/p: there is no ClusterGroup gone$/,
    );
  });
});

describe('a ClusterGroup in appliedTo', () => {
  const groups = [
    group('one', { nodeSelector: labelled('one') }),
    group('all', { childGroups: ['one', 'two'] }),
    group('two', { nodeSelector: labelled('two') }),
  ];
  const drop: Rule = { action: 'Drop' };

  it('stands for the Nodes that it or its children select', () => {
    const policies = [
      policy('a', { appliedTo: [{ group: 'one' }], ingress: [drop] }),
      policy('b', { appliedTo: [{ group: 'all' }], ingress: [drop] }),
      policy('c', { appliedTo: [{ group: 'one' }, { nodeSelector: labelled('two') }], ingress: [drop] }),
      policy('d', { appliedTo: [], egress: [{ ...drop, appliedTo: [{ group: 'two' }] }] }),
    ];
    const spans = compile(cluster({ groups, policies })).policies.map((one) => [...(one.spans[0] ?? [])]);
    assert.deepEqual(spans, [['one'], ['one', 'two'], ['one', 'two'], ['two']]);
  });
});

describe('other peers', () => {
  it('passes fqdn names on to the node', () => {
    const to = [{ fqdn: 'www.example.com' }, { fqdn: '*.example.com' }, { fqdn: 'www.example.com' }];
    const egress: Rule[] = [{ action: 'Allow', to: [...to, { ipBlock: { cidr: '10.0.0.0/8' } }] }];
    const compiled = compile(cluster({ policies: [policy('p', { egress })] }));
    const { names, description, dynamic, members } = setOf(compiled, 'p');
    assert.deepEqual(names, ['*.example.com', 'www.example.com']);
    assert.equal(description, 'name *.example.com; name www.example.com; 10.0.0.0/8');
    assert.equal(dynamic, true);
    assert.deepEqual(formatMembers(members), ['10.0.0.0/8']);
    const without = compile(
      cluster({ policies: [policy('p', { egress: [{ action: 'Allow', to: to.slice(1) }] })] }),
    );
    assert.notEqual(setOf(without, 'p').id, setOf(compiled, 'p').id);
  });

  it('does not make addresses of link groups', () => {
    const interfaces = [
      { interfaceGroup: 'pods' },
      { interfaceGroup: 10 },
      { interfaceGroup: 9 },
      { interfaceGroup: 'clusternet' },
      { interfaceGroup: 9 },
    ];
    const [alone, mixed] = [from(...interfaces), from(...interfaces, { nodeSelector: {} })];
    const nobody = from({ interfaceGroup: 1 }, { group: 'g' });
    const groups = [group('g', { ipBlocks: [] })];
    const compiled = compile(cluster({ groups, policies: [alone, mixed, nobody] }));
    const sorted = { kind: 'interfaces', groups: [9, 10, 'clusternet', 'pods'] };
    assert.deepEqual(ruleOf(compiled, alone.name).peers, [sorted]);
    assert.deepEqual(ruleOf(compiled, mixed.name).peers, [sorted, ...fromSet(compiled.allNodes)]);
    assert.deepEqual(formatMembers(setOf(compiled, nobody.name).members), []);
  });
});

describe('toServices', () => {
  const http: ServicePort = { protocol: 'TCP', port: 80 };
  const dns: ServicePort = { protocol: 'UDP', port: 53 };
  const to = (...names: string[]): Rule[] => [
    { action: 'Allow', toServices: names.map((name) => ({ name, namespace: 'shop' })) },
  ];
  const members = (objects: Partial<ClusterObjects>, ...names: string[]): string[] => {
    const compiled = compile(cluster({ ...objects, policies: [policy('p', { egress: to(...names) })] }));
    const rule = ruleOf(compiled, 'p');
    const [set] = compiled.serviceSets.values();
    assert.ok(set !== undefined);
    assert.deepEqual([rule.peers, rule.services], [[{ kind: 'services', set: set.id }], []]);
    return set.members.map(({ address, protocol, port }) => `${address} ${protocol} ${port}`);
  };

  it("stand for the cluster IPs with the Service's ports and the endpoints of each slice with its ports", () => {
    const services = [service('web', { clusterIPs: ['10.96.0.10', 'FD00:96::A'], ports: [http, dns] })];
    const endpointSlices = [
      slice('web', ['10.1.0.9', '10.1.0.10'], { protocol: 'TCP', port: 8080 }),
      slice('web', ['10.1.0.10', '10.1.0.2'], { protocol: 'SCTP', port: 9 }),
      slice('other', ['10.1.0.7'], http),
    ];
    const wanted = [
      '10.1.0.2 sctp 9',
      '10.1.0.9 tcp 8080',
      '10.1.0.10 sctp 9',
      '10.1.0.10 tcp 8080',
      '10.96.0.10 tcp 80',
      '10.96.0.10 udp 53',
      'fd00:96::a tcp 80',
      'fd00:96::a udp 53',
    ];
    const pods = ['10.1.0.2', '10.1.0.9', '10.1.0.10'].map((address) => pod('shop', address, address));
    assert.deepEqual(members({ services, pods, endpointSlices }, 'web'), wanted);
    const turned = endpointSlices.toReversed();
    assert.deepEqual(members({ services, pods, endpointSlices: turned }, 'web', 'web'), wanted);
  });

  it('stand for nothing if the Service is missing, even if it has endpoints', () => {
    assert.deepEqual(members({ endpointSlices: [slice('web', ['10.1.0.9'], http)] }, 'web'), []);
  });

  it('are shared by rules with the same Services', () => {
    const policies = [
      policy('a', { egress: to('x', 'y') }),
      policy('b', { egress: to('y', 'x', 'y') }),
      policy('c', { egress: to('x') }),
      policy('d', { egress: [{ action: 'Drop', toServices: [] }] }),
    ];
    const compiled = compile(cluster({ policies }));
    const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((name) => namedBy([ruleOf(compiled, name)]).serviceSets);
    assert.deepEqual(a, b);
    assert.notDeepEqual(a, c);
    assert.deepEqual(d, []);
    assert.equal(compiled.serviceSets.size, 2);
    assert.equal(compiled.serviceSets.get(a?.[0] ?? '')?.description, 'shop/x, shop/y');
  });
});

describe('other fields of a rule', () => {
  it('are compiled: mode, traffic, Pass and logging', () => {
    const said = (rule: Partial<Rule>, spec: Partial<ClusterNetworkPolicySpec> = {}) => {
      const ingress = [{ action: 'Pass' as const, ...rule }];
      const { action, mode, traffic, log } = ruleOf(
        compile(cluster({ policies: [policy('p', { ...spec, ingress })] })),
        'p',
      );
      return [action, mode, traffic, log?.label ?? null];
    };
    assert.deepEqual(said({}), ['Pass', 'Enforce', 'Host', null]);
    assert.deepEqual(said({ enableLogging: false, logLabel: 'x' }), ['Pass', 'Enforce', 'Host', null]);
    assert.deepEqual(said({ enableLogging: true }), ['Pass', 'Enforce', 'Host', '']);
    assert.deepEqual(said({ enableLogging: true, logLabel: 'x' }, { traffic: 'NodePort' }), [
      'Pass',
      'Enforce',
      'NodePort',
      'x',
    ]);
    assert.deepEqual(said({ logLabel: 'x' }, { mode: 'Audit' }), ['Pass', 'Audit', 'Host', 'x']);
  });
});

describe('incremental compilation', () => {
  const selecting = group('g', { podSelector: labelled('web') });
  const unrelated = group('unrelated', { nodeSelector: {} });
  const serviced = group('s', { serviceReference: { namespace: 'shop', name: 'web' } });
  const plain = from({ podSelector: labelled('db') });
  const grouped = from({ group: 'g' });
  const services = [service('web', { selector: { name: 'web' }, clusterIPs: ['10.96.0.1'] })];
  const start = cluster({
    groups: [selecting, unrelated, serviced],
    services,
    policies: [
      plain,
      grouped,
      from({ group: 's' }),
      policy('to', { egress: [{ action: 'Drop', toServices: [{ namespace: 'shop', name: 'web' }] }] }),
    ],
  });
  const rulesOf = (compiled: Compiled, name: string) =>
    compiled.policies.find((one) => one.name === name)?.rules;

  it('compiles a policy again only if a group that it names changed', () => {
    const next = compiler();
    const first = next(start);
    const other = next({ ...start, groups: [selecting, group('unrelated', {}), serviced] });
    assert.equal(rulesOf(other, plain.name), rulesOf(first, plain.name));
    assert.equal(rulesOf(other, grouped.name), rulesOf(first, grouped.name));
    const changed = { ...start, groups: [group('g', { podSelector: labelled('db') }), unrelated, serviced] };
    const third = next(changed);
    assert.equal(rulesOf(third, plain.name), rulesOf(first, plain.name));
    assert.notEqual(rulesOf(third, grouped.name), rulesOf(first, grouped.name));
    assert.deepEqual(formatMembers(setOf(third, grouped.name).members), ['10.1.0.3']);
    assert.deepEqual(plainCompiled(third), compile(changed));
  });

  it("notices a changed child group, and a new group of the policy's own API group", () => {
    const next = compiler();
    const parent = group('g', { childGroups: ['a'] }, 'crd.antrea.io');
    const policies = [grouped];
    const states = [
      [parent, group('a', { nodeSelector: labelled('one') })],
      [parent, group('a', { nodeSelector: labelled('two') })],
      [parent, group('a', { nodeSelector: labelled('two') }), group('g', { podSelector: labelled('db') })],
    ];
    const wanted = [['10.0.0.1'], ['10.0.0.2'], ['10.1.0.3']];
    for (const [i, groups] of states.entries()) {
      const compiled = next(cluster({ groups, policies }));
      assert.deepEqual(formatMembers(setOf(compiled, grouped.name).members), wanted[i]);
    }
  });

  it('updates only the ServiceSets when Services and endpoints change', () => {
    const next = compiler();
    const first = next(start);
    const changed = { ...start, services: [service('web', { selector: { name: 'db' } })] };
    const second = next(changed);
    assert.deepEqual(plainCompiled(second), compile(changed));
    assert.notDeepEqual(new Map(second.addressSets), new Map(first.addressSets));
    assert.equal(setOf(second, plain.name), setOf(first, plain.name));
    const slices = { ...changed, endpointSlices: [slice('web', ['10.1.0.1'], { protocol: 'TCP', port: 1 })] };
    const third = next(slices);
    assert.deepEqual(plainCompiled(third), compile(slices));
    assert.notDeepEqual(new Map(third.serviceSets), new Map(second.serviceSets));
    for (const [id, set] of third.addressSets) assert.equal(set, second.addressSets.get(id));
    const fourth = next({
      ...slices,
      endpointSlices: slices.endpointSlices.map((one) => ({ ...one, name: 'new' })),
    });
    for (const [id, set] of fourth.serviceSets) assert.equal(set, third.serviceSets.get(id));
  });
});
