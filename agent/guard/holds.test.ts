import assert from 'node:assert/strict';
import { closing, fromPods, ingress, nodeState, pod } from '../../test/fake/node-state.ts';
import type { Hold, PolicyChange } from './guard-state.ts';
import { policyChanges, policyDigest, withHolds } from './holds.ts';
import { touchedSets } from './verdicts.ts';

const hold = (change: PolicyChange, sets: readonly string[] = []): Hold => {
  return { ...change, why: { kind: 'unconfirmed' }, sets, isBrief: false, since: '' };
};

describe('held policies', () => {
  const confirmed = nodeState(closing('a', 1), closing('b', 2));

  it('have their confirmed version, and the others their newest', () => {
    const now = nodeState(closing('a', 11), closing('b', 12), closing('c', 13));
    const changes = policyChanges(confirmed, now);
    assert.deepEqual(
      changes.map(({ key }) => key),
      ['nodewall.io/a', 'nodewall.io/b', 'nodewall.io/c'],
    );
    const holds = changes.filter(({ key }) => key !== 'nodewall.io/b').map((one) => hold(one));
    const mixed = withHolds(now, holds, confirmed);
    assert.deepEqual(
      policyChanges(confirmed, mixed).map(({ key }) => key),
      ['nodewall.io/b'],
    );
    assert.equal(policyDigest(mixed, 'nodewall.io/c'), null);
  });

  it('come back where they were deleted', () => {
    const now = nodeState(closing('b', 2));
    const [gone, ...others] = policyChanges(confirmed, now);
    assert.deepEqual([gone?.key, gone?.digest, others.length], ['nodewall.io/a', null, 0]);
    assert.ok(gone !== undefined);
    assert.deepEqual(policyChanges(confirmed, withHolds(now, [hold(gone)], confirmed)), []);
  });

  it('change by a new value of the annotation, not by a generation', () => {
    const annotated = (value: string, generation: number): object => {
      const made = structuredClone(closing('a', 1)) as { metadata: object };
      return { ...made, metadata: { name: 'a', generation, annotations: { 'nodewall.io/retry': value } } };
    };
    const changes = (value: string) =>
      policyChanges(nodeState(annotated('1', 1)), nodeState(annotated(value, 2))).length;
    assert.deepEqual([changes('1'), changes('2')], [0, 1]);
  });

  it('keep the members that sets had, if only members were at fault', () => {
    const policy = ingress('p', { name: 'r', action: 'Drop', from: [fromPods('db')] });
    const before = nodeState(policy, pod('db', '10.0.0.1'));
    const now = nodeState(policy, pod('db', '10.0.0.1'), pod('db', '10.0.0.2'));
    const probe = {
      kind: 'outward',
      name: 'db',
      attempts: [{ kind: 'tcp', address: '10.0.0.2', port: 1 }],
    } as const;
    const [set, ...others] = touchedSets(() => [probe], before, now);
    assert.ok(set !== undefined && others.length === 0);
    const change = { key: 'nodewall.io/p', digest: null, before: null, generation: 0 };
    const kept = withHolds(now, [hold(change, [set])], before);
    assert.equal(kept.addressSets.get(set), before.addressSets.get(set));
    assert.deepEqual(kept.rules, now.rules);
  });
});
