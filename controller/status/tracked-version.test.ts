import assert from 'node:assert/strict';
import type { CompiledPolicy, CompiledRule } from '../../apis/compiled.ts';
import type { Revision } from '../publish/resume-log.ts';
import { WATCHED } from '../watch/cluster/resources.ts';
import { ReportedNode } from './reported-node.ts';
import {
  appliesTo,
  hasVersion,
  isOlder,
  placeInRevision,
  type TrackedVersion,
  trackVersion,
} from './tracked-version.ts';

const [A, B] = [new ReportedNode('a', 0), new ReportedNode('b', 0)];
const RULES = [{ source: { generation: 3 } }] as unknown as readonly CompiledRule[];

/** A revision; a position of Nodes and of policies: of another controller unless it is `e`. */
function at(number: number, epoch = 'e', nodes = 0, policies = 0, antrea = 0): Revision {
  const position = WATCHED.map(({ name }) => {
    if (name === 'nodes') return nodes;
    if (name === 'clusternetworkpolicies.crd.antrea.io') return antrea;
    return name === 'clusternetworkpolicies.nodewall.io' ? policies : 0;
  });
  return { epoch, number, position };
}

function policy(rules: readonly CompiledRule[], names: readonly string[], since?: number): CompiledPolicy {
  const more = since === undefined ? {} : { since };
  return { apiGroup: 'nodewall.io', name: 'p', rules, spans: [new Set(names)], ...more };
}

function track(
  before: TrackedVersion | undefined,
  compiled: CompiledPolicy,
  revision: Revision,
): TrackedVersion {
  const nodeOf = (name: string): ReportedNode => (name === 'a' ? A : B);
  const nodes = [...(compiled.spans[0] ?? [])].map(nodeOf);
  return trackVersion(before, compiled, {
    policy: 'nodewall.io/p',
    place: placeInRevision(revision, compiled),
    nodes,
    nodeOf,
  });
}

describe('a tracked version', () => {
  const first = track(undefined, policy(RULES, ['a']), at(5));
  const isAt = (revision: Revision | null, node = A, tracked = first) =>
    hasVersion(revision, node, tracked, 'e');

  it('is in the revisions of this hub since it was published', () => {
    assert.equal(first.generation, 3);
    assert.deepEqual([isAt(null), isAt(at(4)), isAt(at(5)), isAt(at(6))], [false, false, true, true]);
  });

  it('is in revisions of other controllers since they saw the resource version of the policy', () => {
    const known = { ...first, version: 20 };
    assert.deepEqual(
      [19, 20].map((policies) => isAt(at(99, 'other', 0, policies), A, known)),
      [false, true],
    );
    assert.equal(isAt({ epoch: 'other', number: 99, position: [] }, A, known), false, 'not comparable');
  });

  it('is, of crd.antrea.io, in revisions of other controllers by the watch of those policies', () => {
    const known = { ...first, policy: 'crd.antrea.io/p', version: 20 };
    const seen = (own: number, antrea: number): Revision => ({
      epoch: 'other',
      number: 99,
      position: WATCHED.map(({ name }) => {
        if (name === 'clusternetworkpolicies.crd.antrea.io') return antrea;
        return name === 'clusternetworkpolicies.nodewall.io' ? own : 0;
      }),
    });
    assert.deepEqual([isAt(seen(99, 19), A, known), isAt(seen(0, 20), A, known)], [false, true]);
  });

  it('begins anew with other rules, not with equal ones', () => {
    const same = track(first, policy([...RULES], ['a']), at(8));
    assert.deepEqual([same.since, same.later.size], [5, 0]);
    const other = track(first, policy([...RULES, ...RULES], ['a']), at(8));
    assert.deepEqual([other.since, isAt(at(7), A, other)], [8, false]);
  });

  it('comes later to a node that it newly applies to, and is unchanged on the others', () => {
    const known = { ...first, version: 20 };
    const wider = track(known, policy(RULES, ['a', 'b']), at(8, 'e', 40));
    assert.equal(wider.version, 20);
    assert.deepEqual(
      [isAt(at(7), A, wider), isAt(at(7), B, wider), isAt(at(8), B, wider)],
      [true, false, true],
    );
    const elsewhere = (nodes: number) => isAt(at(1, 'other', nodes, 20), B, wider);
    assert.deepEqual([elsewhere(39), elsewhere(40)], [false, true]);
    const rollout = track(known, policy(RULES, ['a', 'b'], 30), at(8, 'e', 40));
    const since = (policies: number) => isAt(at(1, 'other', 40, policies), B, rollout);
    assert.deepEqual([since(29), since(30)], [false, true], 'a rollout decided it');
    const back = track(wider, policy(RULES, ['b']), at(9));
    assert.deepEqual([isAt(at(8), A, back), isAt(at(9), A, back)], [false, true], 'where it must go');
  });

  it('is elsewhere by the resource version at which its nodes were decided', () => {
    const decided = { ...track(undefined, policy(RULES, ['a'], 30), at(5)), version: 20 };
    const elsewhere = (policies: number) => isAt(at(1, 'other', 0, policies), A, decided);
    assert.deepEqual([elsewhere(29), elsewhere(30), isAt(at(5), A, decided)], [false, true, true]);
  });

  it('has the generation that its name says, where nodes may have another version', () => {
    assert.equal(track(undefined, { ...policy(RULES, ['a']), version: '7' }, at(1)).generation, 7);
    assert.equal(track(undefined, policy([], ['a']), at(1)).generation, 0);
  });

  it('applies to the nodes of any of its rules', () => {
    const two = { ...policy(RULES, ['a']), spans: [new Set<string>(), new Set(['b'])] };
    assert.deepEqual([appliesTo(two, A), appliesTo(two, B)], [false, true]);
  });
});

describe('an older revision', () => {
  it('is by number of the same hub, by any position of another, or none', () => {
    assert.equal(isOlder(at(1), at(2)), true);
    assert.equal(isOlder(at(2), at(2)), false);
    assert.equal(isOlder(null, at(2)), true);
    assert.equal(isOlder(at(1), null), false);
    assert.equal(isOlder(at(1, 'other', 5, 9), at(2, 'e', 6, 5)), true);
    assert.equal(isOlder(at(1, 'other', 6, 4), at(2, 'e', 6, 5)), true);
    assert.equal(isOlder(at(1, 'other', 6, 5), at(2, 'e', 6, 5)), false);
    assert.equal(isOlder(at(1, 'other', 6, 5, 7), at(2, 'e', 6, 5, 8)), true);
    assert.equal(isOlder(at(1, 'other', 6, 5, 8), at(2, 'e', 6, 5, 8)), false);
  });
});
