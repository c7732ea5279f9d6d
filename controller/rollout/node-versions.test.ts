import assert from 'node:assert/strict';
import type {
  ClusterNetworkPolicy,
  ClusterNetworkPolicySpec,
  ClusterObjects,
  PolicyRollout,
} from '../../apis/objects.ts';
import { NO_OBJECTS } from '../../apis/objects.ts';
import { EVERY_PLACE, type RolloutDecision } from '../../apis/rollout.ts';
import { compile, compiler } from '../compile/compile.ts';
import { nodeView } from '../publish/node-view.ts';
import { NodeVersions } from './node-versions.ts';

const NODES = ['n1', 'n2', 'n3', 'n4'];

function spec(priority: number, more: Partial<ClusterNetworkPolicySpec> = {}): ClusterNetworkPolicySpec {
  const ingress = [{ name: 'r', action: 'Drop' as const }];
  return { priority, appliedTo: [{ nodeSelector: {} }], ingress, ...more };
}

function policy(
  generation: number,
  rollout?: Partial<PolicyRollout>,
  more: Partial<ClusterNetworkPolicySpec> = {},
): ClusterNetworkPolicy {
  return {
    kind: 'ClusterNetworkPolicy',
    apiGroup: 'nodewall.io',
    name: 'p',
    uid: 'u',
    generation,
    spec: spec(generation, rollout === undefined ? more : { rollout: {}, ...more }),
    ...(rollout === undefined
      ? {}
      : { rollout: { decision: null, since: 5, versions: [], isSeen: false, ...rollout } }),
  };
}

function decision(fields: Partial<RolloutDecision> & { from: number; to: number }): RolloutDecision {
  const { from, to, ...more } = fields;
  const policies = [{ name: 'p', uid: 'u', from, to }];
  return {
    serial: 1,
    key: 'u',
    state: 'Progressing',
    step: 1,
    through: '',
    firsts: ['n2'],
    policies,
    ...more,
  };
}

const stored = (...generations: readonly number[]) =>
  generations.map((generation) => ({ generation, spec: spec(generation) }));

function objects(...policies: ClusterNetworkPolicy[]): ClusterObjects {
  const nodes = NODES.map((name) => ({ kind: 'Node' as const, name, labels: {}, addresses: [] }));
  return { ...NO_OBJECTS, nodes, policies };
}

/** By node, the generation that it enforces; 0: none. */
function served(versions: NodeVersions, ...policies: ClusterNetworkPolicy[]): readonly number[] {
  const compiled = compile(versions.on(objects(...policies)));
  return NODES.map((node) => nodeView(compiled, node).rules[0]?.source.generation ?? 0);
}

describe('the versions that nodes get', () => {
  it('are those of the decision, each for its nodes', () => {
    const rollout = { decision: decision({ from: 1, to: 2 }), versions: stored(1, 2), isSeen: true };
    assert.deepEqual(served(new NodeVersions(), policy(2, rollout)), [1, 2, 1, 1]);
    assert.deepEqual(served(new NodeVersions(), policy(3, rollout)), [1, 2, 1, 1], 'edited, not decided');
    const none = { ...rollout, decision: decision({ from: 0, to: 2 }) };
    assert.deepEqual(served(new NodeVersions(), policy(2, none)), [0, 2, 0, 0]);
  });

  it('are one for all when the rollout is completed or undone', () => {
    const of = (state: 'Completed' | 'Undone', from: number, to: number) => {
      const over = { state, firsts: [], through: state === 'Completed' ? EVERY_PLACE : '' };
      return served(
        new NodeVersions(),
        policy(2, { decision: decision({ ...over, from, to }), versions: stored(1) }),
      );
    };
    assert.deepEqual(of('Completed', 2, 2), [2, 2, 2, 2]);
    assert.deepEqual(of('Undone', 1, 2), [1, 1, 1, 1]);
    assert.deepEqual(of('Undone', 0, 2), [0, 0, 0, 0]);
  });

  it('are what was in force while nothing is decided, and none of a new policy', () => {
    const versions = new NodeVersions();
    assert.deepEqual(served(versions, policy(1)), [1, 1, 1, 1]);
    assert.deepEqual(served(versions, policy(2, { isSeen: true })), [1, 1, 1, 1]);
    assert.deepEqual(
      served(new NodeVersions(), policy(2, { isSeen: true })),
      [2, 2, 2, 2],
      'nothing else is known',
    );
    assert.deepEqual(served(new NodeVersions(), policy(1, {})), [0, 0, 0, 0]);
  });

  it('do not include one that names a group that does not exist any more', () => {
    const lost = { generation: 1, spec: spec(1, { appliedTo: [{ group: 'gone' }] }) };
    const rollout = { decision: decision({ from: 1, to: 2 }), versions: [lost], isSeen: true };
    assert.deepEqual(served(new NodeVersions(), policy(2, rollout)), [2, 2, 2, 2]);
  });

  it('follow the last decision of the group, and that of the former rollout until then', () => {
    const group = { rollout: { group: 'web' } };
    const own = {
      decision: decision({ key: 'group web', serial: 3, from: 1, to: 2 }),
      versions: stored(1, 2),
    };
    const later = decision({ key: 'group web', serial: 4, state: 'Completed', from: 2, to: 2 });
    const other = { ...policy(7, { decision: later }, group), name: 'a', uid: 'a' };
    const [, ...all] = [other, ...NODES].map(() => 2);
    const compiled = compile(new NodeVersions().on(objects(other, policy(2, own, group))));
    const generations = NODES.map((node) => {
      return nodeView(compiled, node).rules.find(({ source }) => source.policy === 'p')?.source.generation;
    });
    assert.deepEqual(generations, all);
    const former = { decision: decision({ from: 1, to: 2, serial: 40 }), versions: stored(1, 2) };
    assert.deepEqual(served(new NodeVersions(), policy(2, former, group)), [1, 2, 1, 1]);
  });

  it('keep their rules from step to step: only the nodes of the step change', () => {
    const versions = new NodeVersions();
    const next = compiler();
    const at = (firsts: readonly string[], serial: number) => {
      const one = policy(2, {
        decision: decision({ from: 1, to: 2, serial, firsts }),
        versions: stored(1, 2),
      });
      const { policies } = next(versions.on(objects(one)));
      return new Map(policies.map((each) => [each.version, each]));
    };
    const [before, after] = [at(['n2'], 1), at(['n2', 'n3'], 2)];
    for (const version of ['1', '2']) assert.equal(after.get(version)?.rules, before.get(version)?.rules);
    assert.deepEqual([...(after.get('2')?.spans[0] ?? [])], ['n2', 'n3']);
    assert.deepEqual([...(after.get('1')?.spans[0] ?? [])], ['n1', 'n4']);
  });

  it('are the same objects while nothing changes', () => {
    const versions = new NodeVersions();
    const all = objects(policy(2, { decision: decision({ from: 1, to: 2 }), versions: stored(1) }));
    const [first, second] = [versions.on(all), versions.on({ ...all, nodes: [] })];
    assert.equal(second.policies, first.policies);
    const plain = objects(policy(1));
    assert.equal(versions.on(plain), plain);
  });
});
