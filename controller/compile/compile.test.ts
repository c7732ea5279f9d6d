import assert from 'node:assert/strict';
import type { Compiled } from '../../apis/compiled.ts';
import {
  type ClusterNetworkPolicy,
  type ClusterNetworkPolicySpec,
  type ClusterObjects,
  type EndpointSlice,
  NO_OBJECTS,
  type Node,
  type Pod,
  type Rule,
} from '../../apis/objects.ts';
import { formatMembers } from '../../lib/net/member-set.ts';
import { fromSet } from '../../test/fake/node-state.ts';
import { compile, compiler } from './compile.ts';

const drop: Rule = { name: 'r', action: 'Drop' };
const everywhere = [{ nodeSelector: {} }];
const node = (name: string): Node => ({ kind: 'Node', name, labels: { name }, addresses: [] });

function policy(
  name: string,
  spec: Partial<ClusterNetworkPolicySpec> = {},
  apiGroup: ClusterNetworkPolicy['apiGroup'] = 'nodewall.io',
): ClusterNetworkPolicy {
  const whole = { priority: 5, appliedTo: everywhere, ingress: [drop], ...spec };
  return { kind: 'ClusterNetworkPolicy', apiGroup, name, uid: 'u', generation: 7, spec: whole };
}

function objects(...policies: ClusterNetworkPolicy[]): ClusterObjects {
  return {
    ...NO_OBJECTS,
    nodes: [node('one'), node('two')],
    policies,
  };
}

describe('compile', () => {
  it('sorts policies in evaluation order, whatever their input order', () => {
    const policies = [
      policy('b', { tier: 'emergency', priority: 9 }),
      policy('a', { tier: 'Platform', priority: 1 }),
      policy('Z', { priority: 1.5 }),
      policy('a-b', { priority: 5 }),
      policy('a.b', { priority: 5 }, 'crd.antrea.io'),
      policy('a.b', { priority: 5 }, 'nodewall.io'),
      policy('a0', { priority: 5 }),
    ];
    const wanted = ['b', 'a', 'Z', 'a-b', 'a.b', 'a.b', 'a0'];
    for (const order of [policies, policies.toReversed()]) {
      const { policies: found } = compile(objects(...order));
      assert.deepEqual(
        found.map(({ name }) => name),
        wanted,
      );
      assert.deepEqual([found[4]?.apiGroup, found[5]?.apiGroup], ['crd.antrea.io', 'nodewall.io']);
    }
  });

  it('carries the source of every rule', () => {
    const { policies } = compile(
      objects(policy('p', { ingress: [drop], egress: [drop, { action: 'Allow' }] })),
    );
    assert.deepEqual(
      policies[0]?.rules.map(({ source }) => [
        source.direction,
        source.ruleIndex,
        source.policy,
        source.uid,
        source.generation,
      ]),
      [
        ['ingress', 0, 'p', 'u', 7],
        ['egress', 0, 'p', 'u', 7],
        ['egress', 1, 'p', 'u', 7],
      ],
    );
  });

  it('keeps the id of a rule when another rule is inserted before it', () => {
    const id = (...rules: Rule[]) =>
      compile(objects(policy('p', { ingress: rules }))).policies[0]?.rules.find(
        ({ source }) => source.rule === 'r',
      )?.id;
    assert.equal(id({ name: 'new', action: 'Allow' }, drop), id(drop));
    const ids = compile(
      objects(policy('p', { egress: [drop] }), policy('p', {}, 'crd.antrea.io'), policy('q')),
    )
      .policies.flatMap(({ rules }) => rules)
      .map((rule) => rule.id);
    assert.equal(new Set(ids).size, 4, 'of API group, policy, direction and name');
  });

  it('spans the nodes of the policy, or of each rule', () => {
    const two = [{ nodeSelector: { matchLabels: { name: 'two' } } }];
    const rules = [
      { ...drop, name: 'a', appliedTo: two },
      { ...drop, name: 'b', appliedTo: everywhere },
    ];
    const { policies } = compile(
      objects(policy('p', { appliedTo: [], ingress: rules }), policy('q', { appliedTo: two })),
    );
    assert.deepEqual(
      policies.map(({ spans }) => spans.map((span) => [...span])),
      [[['two'], ['one', 'two']], [['two']]],
    );
    assert.equal(policies[0]?.spans[0], policies[1]?.spans[0], 'equal spans are one object');
  });

  it('makes no AddressSet for any address, and one for a list of peers', () => {
    const rules = [
      drop,
      { ...drop, name: 'e', from: [] },
      { ...drop, name: 'n', from: [{ nodeSelector: {} }] },
    ];
    const compiled = compile(objects(policy('p', { ingress: rules })));
    assert.deepEqual(
      compiled.policies[0]?.rules.map((rule) => rule.peers),
      [[{ kind: 'any' }], [{ kind: 'any' }], fromSet(compiled.allNodes)],
    );
  });

  it("finds the controllers' addresses by their ServiceAccount, whether or not a rule names them", () => {
    const pod = (namespace: string, serviceAccount: string, ...addresses: string[]): Pod => {
      return { kind: 'Pod', namespace, name: addresses.join(), labels: {}, serviceAccount, addresses };
    };
    const pods = [
      pod('nodewall-system', 'nodewall-controller', '10.1.0.1', 'fd00::1'),
      pod('nodewall-system', 'nodewall-controller', '10.1.0.2'),
      pod('nodewall-system', 'nodewall-agent', '10.1.0.3'),
      pod('default', 'nodewall-controller', '10.1.0.4'),
    ];
    const onHost = { hostNetwork: true, hostAddresses: ['192.0.2.9'] } as const;
    const host = { ...pod('nodewall-system', 'nodewall-controller'), name: 'host', ...onHost };
    const next = compiler();
    const before = next({ ...objects(policy('p')), pods: pods.slice(1) });
    const now = next({ ...objects(policy('p')), pods });
    const membersOf = ({ addressSets, controllers }: Compiled) =>
      formatMembers(addressSets.get(controllers)?.members ?? assert.fail());
    assert.deepEqual(membersOf(before), ['10.1.0.2']);
    assert.deepEqual(membersOf(now), ['10.1.0.1', '10.1.0.2', 'fd00::1']);
    assert.equal(now.controllers, before.controllers, 'another member, not another set');
    const withHost = next({ ...objects(policy('p')), pods: [...pods, host] });
    assert.deepEqual(membersOf(withHost), ['10.1.0.1', '10.1.0.2', '192.0.2.9', 'fd00::1']);
    assert.deepEqual(membersOf(next({ ...objects(policy('p')), pods })), membersOf(now));
  });

  it('has hostNetwork controllers in no peer of a rule, over changes and at once', () => {
    const [namespace, serviceAccount] = ['nodewall-system', 'nodewall-controller'];
    const onHost = { hostNetwork: true, hostAddresses: ['192.0.2.9'] } as const;
    const named = { kind: 'Pod', namespace, name: 'host', labels: {} } as const;
    const host: Pod = { ...named, serviceAccount, addresses: [], ...onHost };
    const ingress = [
      { ...drop, name: 'p', from: [{ podSelector: {} }] },
      { ...drop, name: 'n', from: [{ podSelector: {}, namespaceSelector: {} }] },
      { ...drop, name: 'a', from: [{ serviceAccount: { namespace, name: serviceAccount } }] },
    ];
    const next = compiler();
    const before = next(objects(policy('p', { ingress })));
    const now = next({ ...objects(policy('p', { ingress })), pods: [host] });
    const atOnce = compile({ ...objects(policy('p', { ingress })), pods: [host] });
    for (const { addressSets, controllers } of [now, atOnce]) {
      const filled = [...addressSets.values()].filter(({ members }) => formatMembers(members).length > 0);
      assert.deepEqual(
        filled.map(({ id }) => id),
        [controllers],
      );
    }
    assert.deepEqual([...before.addressSets.keys()], [...now.addressSets.keys()]);
  });

  it('takes the TCP ports of the API server from its endpoints', () => {
    const slice = (port: number, changes: Partial<EndpointSlice> = {}): EndpointSlice => ({
      kind: 'EndpointSlice',
      namespace: 'default',
      name: `slice-${port}`,
      service: 'kubernetes',
      addresses: ['192.0.2.1'],
      ports: [{ protocol: 'TCP', port }],
      ...changes,
    });
    const endpointSlices = [
      slice(7443),
      slice(6444),
      slice(1, { service: 'web' }),
      slice(2, { namespace: 'other' }),
      slice(3, { addresses: [] }),
      slice(4, { ports: [{ protocol: 'UDP', port: 4 }] }),
    ];
    const next = compiler();
    assert.deepEqual(next(objects()).apiServerPorts, []);
    const { apiServerPorts } = next({ ...objects(), endpointSlices });
    assert.deepEqual(apiServerPorts, [6444, 7443]);
    const again = next({ ...objects(), endpointSlices: endpointSlices.toReversed() });
    assert.equal(again.apiServerPorts, apiServerPorts);
  });

  it('reads `to` of egress rules, never `from`', () => {
    const rule: Rule = { ...drop, from: [{ nodeSelector: {} }] };
    const { policies } = compile(objects(policy('p', { ingress: [], egress: [rule] })));
    assert.deepEqual(policies[0]?.rules[0]?.peers, [{ kind: 'any' }]);
  });

  it('throws for a missing tier, which validation should have rejected', () => {
    assert.throws(
      () => compile(objects(policy('p', { tier: 'none' }))),
      /ClusterNetworkPolicy\/p: there is no Tier none/,
    );
  });
});
