import assert from 'node:assert/strict';
import type { Compiled, CompiledPolicy, CompiledRule } from '../../apis/compiled.ts';
import { type FailingRule, type NodeReport, SILENCE } from '../../apis/node-report.ts';
import { formatRevision, parseRevision } from '../publish/resume-log.ts';
import { WATCHED } from '../watch/cluster/resources.ts';
import { Realization } from './realization.ts';

const KEY = 'nodewall.io/p';
/** The resource version at which the policy's generation was first seen. */
const VERSION = 20;

function rule(generation: number, name = 'r'): CompiledRule {
  const source = {
    apiGroup: 'nodewall.io',
    policy: 'p',
    uid: 'u',
    generation,
    direction: 'ingress',
    ruleIndex: 0,
    rule: name,
  };
  return { id: name, source } as unknown as CompiledRule;
}

function policy(rules: readonly CompiledRule[], ...spans: readonly ReadonlySet<string>[]): CompiledPolicy {
  return { apiGroup: 'nodewall.io', name: 'p', rules, spans };
}

function compiled(policies: readonly CompiledPolicy[], nodes = ['a', 'b', 'c', 'd']): Compiled {
  const nodeAddresses = new Map(nodes.map((node) => [node, []]));
  return {
    policies,
    addressSets: new Map(),
    serviceSets: new Map(),
    leftOutEndpoints: new Map(),
    allNodes: 'all',
    controllers: 'c',
    apiServerPorts: [],
    nodeAddresses,
  };
}

function report(
  node: string,
  enforced: string | null,
  failing: readonly Partial<FailingRule>[] = [],
): NodeReport {
  const full = failing.map((one) => ({
    apiGroup: 'nodewall.io',
    policy: 'p',
    rule: 'r',
    reason: 'why',
    generation: 1,
    ...one,
  }));
  return { node, enforced, enabled: true, failing: full } as unknown as NodeReport;
}

describe('realization', () => {
  let now: Realization;
  let time: number;
  beforeEach(() => {
    time = 0;
    now = new Realization(() => time);
  });

  const counts = (): readonly [number, number] => {
    const { current, desired } = now.progress(KEY, VERSION, 1);
    return [current, desired];
  };
  const say = (revision: string, ...nodes: readonly string[]): void => {
    for (const node of nodes) now.report(report(node, revision));
  };

  it('names the nodes whose agents ignore a field of the policy, until they are newer', () => {
    const [plain] = [rule(1)];
    const recheck = { ...plain, source: { ...plain.source, established: 'Recheck' } } as CompiledRule;
    const nodes = new Set(['a', 'b']);
    now.publish(compiled([policy([recheck], nodes)]), 'e.1');
    const newer = (node: string) => now.report({ ...report(node, 'e.1'), features: ['established'] });
    newer('a');
    now.report(report('b', 'e.1'));
    const { current, failing } = now.progress(KEY, VERSION, 1);
    assert.equal(current, 1);
    assert.deepEqual(
      failing.map(({ node }) => node),
      ['b'],
    );
    assert.match(failing[0]?.reason ?? '', /needs a newer agent: .* ignores established: Recheck/);
    const ofRollout = now.outcome('b', new Map([[KEY, 1]]));
    assert.deepEqual(ofRollout, { outcome: 'failed', reason: failing[0]?.reason });
    now.consumeChanged();
    newer('b');
    assert.deepEqual([...now.consumeChanged().keys()], [KEY]);
    assert.deepEqual(counts(), [2, 2]);
    now.report(report('b', 'e.1'));
    assert.deepEqual(counts(), [1, 2], 'a downgrade');
    now.publish(compiled([policy([plain], nodes)]), 'e.1');
    assert.deepEqual(counts(), [2, 2], 'without the field');
  });

  it('does not count a silent node, and names it until it reports', () => {
    now.publish(compiled([policy([rule(1)], new Set(['a', 'b', 'c']))]), 'e.1');
    say('e.1', 'a', 'b');
    time = SILENCE - 1;
    now.findSilent();
    assert.deepEqual(counts(), [2, 3]);
    say('e.1', 'b');
    time = SILENCE;
    now.consumeChanged();
    now.findSilent();
    assert.ok(now.consumeChanged().has(KEY));
    assert.deepEqual(counts(), [1, 3]);
    const silent = now
      .progress(KEY, VERSION, 1)
      .failing.map(({ node, reason }) => `${node} ${reason.split(/;| for /)[0]}`);
    assert.deepEqual(silent, ['a the agent has not reported', 'c the agent has not reported']);
    assert.match(now.progress(KEY, VERSION, 1).failing[0]?.reason ?? '', /for 3 minutes/);
    now.findSilent();
    assert.ok(!now.consumeChanged().has('other'));
    say('e.1', 'a', 'c');
    assert.ok(now.consumeChanged().has(KEY));
    assert.deepEqual(counts(), [3, 3]);
  });

  it('counts nodes that enforce the first revision with the rules', () => {
    const one = policy([rule(1)], new Set(['a', 'b', 'c']));
    now.publish(compiled([one]), 'e.5');
    assert.deepEqual(counts(), [0, 3]);
    say('e.4', 'a');
    say('e.5', 'b');
    say('e.9', 'c');
    say('other.9', 'd');
    assert.deepEqual(counts(), [2, 3]);
    say('other.9', 'b');
    now.report(report('c', null));
    assert.deepEqual(counts(), [0, 3]);
    say('e.5', 'a', 'b', 'c');
    assert.deepEqual(counts(), [3, 3]);
    now.report({ ...report('a', 'e.5'), enabled: false });
    assert.deepEqual(counts(), [2, 3]);
  });

  it('restarts the count for other rules, not for other members of address sets', () => {
    const span = new Set(['a', 'b']);
    const one = policy([rule(1)], span);
    now.publish(compiled([one]), 'e.1');
    say('e.1', 'a', 'b');
    now.publish(compiled([one]), 'e.2');
    assert.deepEqual(counts(), [2, 2]);
    now.publish(compiled([policy([rule(2)], span)]), 'e.3');
    assert.deepEqual(counts(), [0, 2]);
  });

  it('waits again only for nodes that a policy newly applies to', () => {
    const rules = [rule(1)];
    now.publish(compiled([policy(rules, new Set(['a', 'b']))]), 'e.1');
    say('e.1', 'a', 'b', 'c');
    now.publish(compiled([policy(rules, new Set(['b', 'c']))]), 'e.2');
    assert.deepEqual(counts(), [1, 2]);
    say('e.2', 'c');
    assert.deepEqual(counts(), [2, 2]);
    now.publish(compiled([policy(rules, new Set(['b', 'c', 'd']))]), 'e.3');
    now.publish(compiled([policy(rules, new Set(['b', 'c']))]), 'e.4');
    assert.deepEqual(counts(), [2, 2]);
  });

  it('counts each node once if rules have different nodes', () => {
    const rules = [rule(1, 'x'), rule(1, 'y')];
    const first = new Set(['a', 'b']);
    now.publish(compiled([policy(rules, first, new Set(['b', 'c']))]), 'e.1');
    say('e.1', 'a', 'b', 'c');
    assert.deepEqual(counts(), [3, 3]);
    // The second rule now applies to a, which must enforce it first, and no longer to c.
    now.publish(compiled([policy(rules, first, new Set(['a', 'b']))]), 'e.2');
    assert.deepEqual(counts(), [1, 2]);
  });

  it('names failing nodes only for this version and for rules that they have', () => {
    now.publish(compiled([policy([rule(2)], new Set(['a', 'b', 'c']))]), 'e.1');
    now.report(report('b', 'e.1', [{ generation: 2 }, { generation: 2, rule: null, reason: 'all' }]));
    now.report(report('a', 'e.1', [{ generation: 1 }]));
    now.report(report('d', 'e.1', [{ generation: 2 }]));
    now.report(report('c', 'e.1', [{ generation: 2, policy: 'other' }]));
    const { current, failing } = now.progress(KEY, VERSION, 1);
    assert.equal(current, 2);
    assert.deepEqual(failing, [
      { node: 'b', rule: 'r', reason: 'why' },
      { node: 'b', reason: 'all' },
    ]);
    say('e.1', 'b');
    assert.deepEqual(counts(), [3, 3]);
    assert.deepEqual(now.progress(KEY, VERSION, 1).failing, []);
  });

  it('does not count a node that tries the version, and says which rolled it back', () => {
    now.publish(compiled([policy([rule(2)], new Set(['a', 'b']))]), 'e.1');
    const tried = [{ apiGroup: 'nodewall.io', policy: 'p', generation: 2 }] as const;
    now.report({ ...report('a', 'e.1'), tried });
    now.report({ ...report('b', 'e.1'), tried: [{ ...tried[0], generation: 1 }] });
    assert.deepEqual(counts(), [1, 2]);
    const inForceUnconfirmed = () => now.progress(KEY, VERSION, 2).tried;
    assert.equal(inForceUnconfirmed(), 1);
    now.consumeChanged();
    now.report({ ...report('a', 'e.1'), tried: [{ ...tried[0], isWaiting: true }] });
    assert.deepEqual([...now.consumeChanged().keys()], [KEY]);
    assert.deepEqual([counts(), inForceUnconfirmed()], [[1, 2], 0]);
    const outcome = () => now.outcome('a', new Map([[KEY, 2]])).outcome;
    assert.equal(outcome(), 'pending', 'a rollout waits for it');
    now.consumeChanged();
    now.report(report('a', 'e.1'));
    assert.deepEqual([...now.consumeChanged().keys()], [KEY]);
    assert.deepEqual([counts(), outcome()], [[2, 2], 'confirmed']);
    now.report(report('a', 'e.1', [{ generation: 2, rolledBack: true }]));
    const { current, failing } = now.progress(KEY, VERSION, 2);
    assert.deepEqual([current, failing], [1, [{ node: 'a', rule: 'r', reason: 'why', rolledBack: true }]]);
    now.report(report('a', 'e.1', [{ generation: 2, notEnforced: true }]));
    assert.equal(now.progress(KEY, VERSION, 2).failing[0]?.notEnforced, true);
    assert.equal(now.versions(KEY, VERSION, 2)[0]?.exceptions[0]?.state, 'NotEnforced');
    assert.equal(outcome(), 'failed');
  });

  it('says why a node that tries the version does not confirm it, which is no failure yet', () => {
    now.publish(compiled([policy([rule(2)], new Set(['a', 'b']))]), 'e.1');
    const tried = { apiGroup: 'nodewall.io', policy: 'p', generation: 2 } as const;
    const why = (reason: string) => [{ ...tried, reason }];
    now.report({ ...report('b', 'e.1'), tried: why('probe dns failed') });
    now.report({ ...report('a', 'e.1'), tried: [{ ...tried, generation: 1, reason: 'old' }] });
    const { current, failing, trying } = now.progress(KEY, VERSION, 2);
    assert.deepEqual([current, failing, trying], [1, [], [{ node: 'b', reason: 'probe dns failed' }]]);
    assert.equal(now.outcome('b', new Map([[KEY, 2]])).outcome, 'pending');
    now.consumeChanged();
    now.report({ ...report('b', 'e.1'), tried: why('probe api-server failed') });
    assert.deepEqual([...now.consumeChanged().keys()], [KEY], 'another reason is news');
    now.report({ ...report('b', 'e.1'), tried: [tried] });
    assert.deepEqual(now.progress(KEY, VERSION, 2).trying, []);
  });

  it('ignores policies that do not exist', () => {
    now.publish(compiled([policy([rule(1)], new Set(['a']))]), 'e.1');
    now.consumeChanged();
    now.report(report('a', 'e.1', [{}, { policy: 'invented' }]));
    assert.deepEqual([...now.consumeChanged().keys()], [KEY]);
    now.report(report('a', 'e.1'));
    assert.deepEqual([...now.consumeChanged().keys()], [KEY]);
    assert.deepEqual(now.progress(KEY, VERSION, 1).failing, []);
  });

  it('returns the policies that may have changed, and no others', () => {
    now.publish(compiled([policy([rule(1)], new Set(['a', 'b']))]), 'e.1');
    const taken = (): string[] => [...now.consumeChanged().keys()];
    assert.deepEqual([taken(), taken()], [[KEY], []]);
    say('e.1', 'a');
    assert.deepEqual(taken(), [KEY]);
    say('e.1', 'b');
    assert.deepEqual(taken(), [KEY]);
    assert.deepEqual(counts(), [2, 2]);
    say('e.1', 'a', 'b');
    assert.deepEqual(taken(), []);
    now.report(report('b', null));
    assert.deepEqual([taken(), counts()], [[KEY], [1, 2]]);
    say('e.1', 'b');
    assert.deepEqual([taken(), counts()], [[KEY], [2, 2]]);
    now.report(report('a', 'e.1', [{}]));
    assert.deepEqual(taken(), [KEY]);
    now.publish(compiled([]), 'e.2');
    assert.deepEqual([taken(), counts()], [[KEY], [0, 0]]);
  });

  it('counts nodes that another controller serves by the positions of its watches', () => {
    // The positions of nodes and of policies; those of the other resources don't matter.
    const at = (nodes: number, policies: number): string => {
      const position = WATCHED.map(({ name }) => {
        if (name === 'nodes') return nodes;
        return name === 'clusternetworkpolicies.nodewall.io' ? policies : 0;
      });
      return formatRevision({ epoch: 'other', number: 1, position });
    };
    const one = policy([rule(1)], new Set(['a', 'b', 'c']));
    now.publish(compiled([one]), 'e.5');
    say(at(90, VERSION - 1), 'a');
    say('other.99', 'b');
    assert.deepEqual(counts(), [0, 3]);
    say(at(1, VERSION), 'a');
    say('e.5', 'b');
    assert.deepEqual(counts(), [2, 3]);
    const position = parseRevision(at(40, 30))?.position ?? [];
    now.publish(
      compiled([policy(one.rules, new Set(['a', 'b', 'c', 'd']))]),
      formatRevision({ epoch: 'e', number: 6, position }),
    );
    say(at(39, VERSION), 'd');
    assert.deepEqual(counts(), [2, 4]);
    now.consumeChanged();
    say(at(40, VERSION), 'd', 'a');
    assert.ok(now.consumeChanged().has(KEY));
    assert.deepEqual(counts(), [3, 4]);
    say(at(40, VERSION - 1), 'a');
    assert.ok(now.consumeChanged().has(KEY));
    assert.deepEqual(counts(), [2, 4]);
  });

  it('forgets deleted nodes', () => {
    const rules = [rule(1)];
    now.publish(compiled([policy(rules, new Set(['a', 'b']))]), 'e.1');
    say('e.1', 'b');
    now.report(report('a', 'e.1', [{}]));
    now.publish(compiled([policy(rules, new Set(['b']))], ['b']), 'e.2');
    assert.deepEqual(now.progress(KEY, VERSION, 1), {
      current: 1,
      desired: 1,
      tried: 0,
      failing: [],
      trying: [],
      hasRules: true,
    });
    now.publish(compiled([policy(rules, new Set(['a', 'b']))], ['a', 'b']), 'e.3');
    assert.deepEqual(counts(), [1, 2]);
  });
});
