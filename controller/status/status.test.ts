import assert from 'node:assert/strict';
import {
  LONGEST_SPEC,
  MOST_FAILING_NODES,
  POLICY_PHASES,
  POLICY_STATUS_SCHEMA,
  type PolicyPhase,
} from '../../apis/policy-status.ts';
import { checkSchema } from '../../apis/schema/json-schema.ts';
import { NEW_POLICY, POLICY_OF_PHASE, rolledOutPolicy } from '../../test/fake/policy-facts.ts';
import { type PolicyFacts, type Progress, statusOf } from './status.ts';

const NOW = new Date('2026-03-01T10:00:00.500Z');
const valid = NEW_POLICY;
const some = valid.progress;
const trying = ['n1', 'n2'].map((node) => ({ node, reason: 'probe dns failed' }));
const failing = [{ node: 'n1', rule: 'r', reason: 'no such set' }];

describe('statusOf', () => {
  const CASES: readonly (readonly [PolicyPhase, string, 'True' | 'False', RegExp, Partial<PolicyFacts>])[] = [
    ['Pending', 'no node yet', 'False', /^0 of 3 nodes enforce the policy\.$/, {}],
    ['Realizing', 'some nodes', 'False', /^2 of 3/, { progress: { ...some, current: 2 } }],
    [
      'Trying',
      'all try',
      'False',
      /^1 of 3 .*, all others try it/,
      { progress: { ...some, current: 1, tried: 2 } },
    ],
    ['Realizing', 'one tries', 'False', /^1 of 3/, { progress: { ...some, current: 1, tried: 1 } }],
    ['Realized', 'all nodes', 'True', /^3 of 3/, { progress: { ...some, current: 3 } }],
    [
      'Failed',
      'one fails',
      'False',
      /^2 of 3 .*; 1 failed\.$/,
      { progress: { ...some, current: 2, failing } },
    ],
    [
      'Pending',
      'probes fail where it is tried',
      'False',
      /^0 of 3 nodes enforce the policy; tried on n1 and 1 more: probe dns failed\.$/,
      { progress: { ...some, trying } },
    ],
    [
      'RolledBack',
      'one rolled it back',
      'False',
      /^2 of 3 .*; 1 rolled it back\.$/,
      { progress: { ...some, current: 2, failing: [{ node: 'n1', reason: 'probe', rolledBack: true }] } },
    ],
    [
      'NotEnforced',
      'its rules match nothing on one',
      'False',
      /^2 of 3 .*; its rules match nothing on 1\.$/,
      { progress: { ...some, current: 2, failing: [{ node: 'n1', reason: 'IPVS', notEnforced: true }] } },
    ],
    [
      'Failed',
      'its rules match nothing on one, and another fails',
      'False',
      /; 2 failed\.$/,
      {
        progress: {
          ...some,
          current: 1,
          failing: [...failing, { node: 'n2', reason: 'IPVS', notEnforced: true }],
        },
      },
    ],
    [
      'NoNodes',
      'no node is selected',
      'True',
      /selects no existing node/,
      { progress: { ...some, desired: 0 } },
    ],
    ['NoNodes', 'no rules', 'True', /no rules/, { progress: { ...some, desired: 0, hasRules: false } }],
    ['Disabled', 'gate off', 'False', /feature gate/, { enabled: false }],
    [
      'Disabled',
      'a gate without a value, and no node that had it on',
      'False',
      /has no value, and no node enforces/,
      { enabled: 'unset' },
    ],
    [
      'Realizing',
      'a gate without a value: nodes that had it on go on',
      'False',
      /^2 of 3/,
      { enabled: 'unset', progress: { ...some, current: 2 } },
    ],
    [
      'Invalid',
      'never valid',
      'False',
      /No version of the policy has been valid/,
      { problems: ['bad'], enforcedGeneration: null },
    ],
    [
      'Pending',
      'waits, never enforced',
      'False',
      /^No version of the policy is enforced yet\.$/,
      { problems: ['there is no Tier "t"'], isWaiting: true, enforcedGeneration: null },
    ],
    [
      'Pending',
      'waits, another version is enforced',
      'False',
      /^Generation 3: 3 of 3/,
      {
        problems: ['there is no Tier "t"'],
        isWaiting: true,
        enforcedGeneration: 3,
        progress: { ...some, current: 3 },
      },
    ],
    [
      'Invalid',
      'was valid',
      'False',
      /^Generation 3: 3 of 3/,
      { problems: ['bad'], enforcedGeneration: 3, progress: { ...some, current: 3 } },
    ],
    [
      'Invalid',
      'invalid and off',
      'False',
      /Generation 3/,
      { problems: ['bad'], enforcedGeneration: 3, enabled: false },
    ],
  ];

  for (const [phase, title, realized, message, facts] of CASES) {
    it(`${phase}: ${title}`, () => {
      const status = statusOf({ ...valid, ...facts }, null, NOW);
      assert.equal(status.phase, phase);
      const [accepted, last] = status.conditions;
      assert.equal(accepted?.status, facts.problems === undefined ? 'True' : 'False');
      assert.equal(last?.status, realized);
      assert.match(last?.message ?? '', message);
      assert.equal(status.observedGeneration, 4);
      assert.deepEqual(checkSchema(POLICY_STATUS_SCHEMA, status), []);
    });
  }

  it('has a case for every phase', () => {
    assert.deepEqual(new Set(CASES.map(([phase]) => phase)), new Set(POLICY_PHASES));
  });

  it('says what a policy waits for, in each condition, and keeps its version in force for later', () => {
    const waits = { ...valid, problems: ['spec.tier: there is no Tier "t"'], isWaiting: true };
    const status = statusOf({ ...waits, enforcedGeneration: 3 }, null, NOW);
    const [accepted, realized, inForce] = status.conditions;
    assert.equal(accepted?.reason, 'WaitingLastValidEnforced');
    assert.equal(
      accepted.message,
      'Generation 4 is not enforced yet: spec.tier: there is no Tier "t". Generation 3 stays enforced.',
    );
    assert.deepEqual([realized?.reason, inForce?.reason, inForce?.status], ['Waiting', 'Waiting', 'False']);
    assert.deepEqual([status.enforcedGeneration, status.enforcedSpec], [3, '{"priority":5}']);
    assert.deepEqual(status.problems, waits.problems);
    const first = statusOf({ ...waits, enforcedGeneration: null }, null, NOW);
    assert.equal(first.conditions[0]?.reason, 'Waiting');
    assert.equal(
      statusOf(waits, null, NOW).conditions[0]?.message,
      'Generation 4 is not enforced yet: spec.tier: there is no Tier "t". It stays enforced as it was.',
    );
  });

  it('gives the reason why a policy is left out, and the version enforced instead', () => {
    const problems = Array.from({ length: 30 }, (_, i) => `spec.ingress[${i}]: ${'x'.repeat(1000)}`);
    const status = statusOf({ ...valid, problems, enforcedGeneration: 3 }, null, NOW);
    assert.equal(status.enforcedGeneration, 3);
    assert.equal(status.problems?.length, 20);
    assert.ok(status.problems?.every((line) => line.length === 512));
    assert.match(status.conditions[0]?.message ?? '', /and 29 more\)\. Generation 3 stays enforced\.$/);
    assert.equal(
      statusOf({ ...valid, problems, enforcedGeneration: null }, null, NOW).enforcedGeneration,
      undefined,
    );
    assert.equal(status.enforcedSpec, '{"priority":5}', 'for a controller that starts');
    const long = { ...valid, problems, enforcedGeneration: 3, enforcedSpec: { x: 'x'.repeat(LONGEST_SPEC) } };
    assert.equal(statusOf(long, null, NOW).enforcedSpec, undefined);
    assert.equal(statusOf(valid, null, NOW).enforcedSpec, undefined);
  });

  it('has a spec that an earlier version enforces, if the policy has fields unknown to it', () => {
    const enforcedSpec = { priority: 5, established: 'Recheck' } as const;
    const status = statusOf({ ...valid, enforcedSpec }, null, NOW);
    assert.equal(status.phase, 'Pending');
    assert.equal(status.enforcedSpec, '{"priority":5}');
    assert.equal(status.enforcedGeneration, undefined);
  });

  it('names twenty nodes at most, each with its first rule', () => {
    const many = Array.from({ length: 50 }, (_, i) => ({
      node: `n${i >> 1}`,
      rule: `r${i}`,
      reason: 'full',
    }));
    const { failingNodes = [] } = statusOf({ ...valid, progress: { ...some, failing: many } }, null, NOW);
    assert.equal(failingNodes.length, MOST_FAILING_NODES);
    assert.deepEqual(failingNodes[1], { node: 'n1', rule: 'r2', reason: 'full' });
  });

  it('is in force before it is realized, where nodes try it', () => {
    const inForce = (progress: Partial<Progress>) => {
      const { conditions } = statusOf({ ...valid, progress: { ...some, ...progress } }, null, NOW);
      const { status, message } = conditions.find(({ type }) => type === 'InForce') ?? {};
      return [status, message];
    };
    assert.deepEqual(inForce({ current: 1, tried: 2 }), [
      'True',
      'In force on 3 of 3 nodes, confirmed on 1.',
    ]);
    assert.deepEqual(inForce({ current: 1, tried: 1 }), [
      'False',
      'In force on 2 of 3 nodes, confirmed on 1.',
    ]);
    assert.equal(inForce({ current: 3 })[0], 'True');
  });

  it('is equal for equal facts, and keeps the times of unchanged conditions', () => {
    const first = statusOf(valid, null, NOW);
    const later = new Date('2026-03-02T00:00:00Z');
    assert.deepEqual(statusOf(valid, first, later), first);
    const done = statusOf({ ...valid, progress: { ...some, current: 3 } }, first, later);
    const times = done.conditions.map(({ type, lastTransitionTime }) => [type, lastTransitionTime]);
    assert.deepEqual(times, [
      ['Accepted', '2026-03-01T10:00:00Z'],
      ...['Realized', 'InForce', 'Ready'].map((type) => [type, '2026-03-02T00:00:00Z']),
    ]);
  });

  /** The conditions by which tools judge any object. */
  function readiness(facts: PolicyFacts): string {
    const { conditions } = statusOf(facts, null, NOW);
    const shown = conditions.filter(({ type }) => ['Ready', 'Reconciling', 'Stalled'].includes(type));
    assert.equal(new Set(shown.map(({ message }) => message)).size, 1);
    return shown.map(({ type, status, reason }) => `${type} ${status} ${reason}`).join(', ');
  }

  it('is ready, is worked on, or needs somebody', () => {
    const found = POLICY_PHASES.map((phase) => [phase, readiness(POLICY_OF_PHASE[phase])]);
    const stalled = (reason: string) => `Ready False ${reason}, Stalled True ${reason}`;
    const reconciling = (reason: string) => `Ready False ${reason}, Reconciling True ${reason}`;
    assert.deepEqual(Object.fromEntries(found), {
      Pending: reconciling('Pending'),
      Realizing: reconciling('Realizing'),
      Trying: reconciling('Trying'),
      Realized: 'Ready True Realized',
      Failed: stalled('NodesFailed'),
      RolledBack: stalled('RolledBack'),
      NotEnforced: stalled('NotEnforced'),
      NoNodes: 'Ready True NoNodes',
      Invalid: stalled('InvalidLastValidEnforced'),
      Disabled: stalled('Disabled'),
    });
    const waits = { ...valid, problems: ['there is no Tier "t"'], isWaiting: true };
    assert.equal(readiness(waits), reconciling('WaitingLastValidEnforced'));
  });

  it('is ready at the end of its rollout', () => {
    assert.equal(readiness(rolledOutPolicy({ state: 'Completed' })), 'Ready True Realized');
    assert.match(readiness(rolledOutPolicy({ state: 'Progressing' })), /Reconciling True Progressing$/);
    const paused = (pausedBy?: 'Failures' | 'Command') =>
      readiness(rolledOutPolicy({ state: 'Paused', ...(pausedBy === undefined ? {} : { pausedBy }) }));
    assert.match(paused('Command'), /Reconciling True PausedByCommand$/);
    assert.match(paused('Failures'), /Stalled True PausedByFailures$/);
    assert.match(readiness(rolledOutPolicy({ state: 'Undone' })), /Stalled True Undone$/);
    const failing = {
      ...rolledOutPolicy({ state: 'Progressing' }),
      progress: POLICY_OF_PHASE.Failed.progress,
    };
    assert.match(readiness(failing), /Stalled True NodesFailed$/);
  });
});
