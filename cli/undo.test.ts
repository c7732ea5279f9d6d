import assert from 'node:assert/strict';
import type { RolloutState } from '../apis/rollout.ts';
import type { PolicyWithRollout } from './rollout.ts';
import { waysBack, waysBackText } from './undo.ts';

/** A policy whose spec was changed at this minute. */
function changed(
  name: string,
  minute: number,
  {
    state,
    from = 1,
    group,
    mode,
  }: { state?: RolloutState; from?: number; group?: string; mode?: string } = {},
): PolicyWithRollout {
  const time = `2026-01-07T12:${String(minute).padStart(2, '0')}:00Z`;
  const managedFields = [
    { manager: 'kubectl-edit', operation: 'Update', time, fieldsV1: { 'f:spec': { 'f:ingress': {} } } },
    // Later, and not of the spec.
    {
      manager: 'kubectl-annotate',
      operation: 'Update',
      time: '2026-01-07T13:00:00Z',
      fieldsV1: { 'f:metadata': { 'f:annotations': { 'f:a': {} } } },
    },
  ];
  const member = { name, uid: 'u', from, to: 2 };
  const key = group === undefined ? 'u' : `group ${group}`;
  const decision = { serial: 1, key, state: state ?? 'Completed', step: 1, policies: [member] };
  return {
    metadata: { name, generation: 2, managedFields },
    spec: mode === undefined ? {} : { mode },
    ...(state === undefined
      ? {}
      : { status: { rollout: { decision: { ...decision, through: '', firsts: [] }, progress: state } } }),
  };
}

describe('what can be undone', () => {
  const policies = [
    changed('old', 1),
    changed('done', 2, { state: 'Completed' }),
    changed('going', 3, { state: 'Progressing', from: 4 }),
    changed('stuck', 5, { state: 'Paused', from: 0, group: 'web' }),
    changed('undone', 4, { state: 'Undone' }),
    changed('records', 6, { mode: 'Audit' }),
  ];

  it('stands first, then by the time of the last change of the spec, each with its line for a shell', () => {
    const ways = waysBack(policies, 'nodewall');
    assert.deepEqual(
      ways.map(({ policy, way, generation, command }) => [policy, way, generation, command]),
      [
        ['stuck', 'undo', 0, 'nodewall undo stuck'],
        ['going', 'undo', 4, 'nodewall undo going'],
        ['records', 'none', null, null],
        ['undone', 'promote', null, 'nodewall rollout promote undone'],
        ['done', 'record-only', null, audit('done')],
        ['old', 'record-only', null, audit('old')],
      ],
    );
    const [first] = ways;
    assert.deepEqual(
      [first?.group, first?.changed, first?.by, first?.rollout],
      ['web', '2026-01-07T12:05:00Z', 'kubectl-edit', 'Paused'],
    );
  });

  it('is printed as its users call the program, with control characters of others quoted', () => {
    const evil = changed('evil\u001b[2J', 7);
    const text = waysBackText(waysBack([...policies, evil], 'kubectl nodewall'), 'kubectl nodewall');
    assert.match(
      text,
      /^stuck +web +\S+Z +kubectl-edit +Paused +kubectl nodewall undo stuck \(the policy is new: /m,
    );
    assert.match(
      text,
      /^going +- +\S+Z +kubectl-edit +Progressing +kubectl nodewall undo going \(generation 4\)$/m,
    );
    assert.match(text, /^old .* no earlier version is stored$/m);
    assert.ok(!text.includes('\u001b[2J'), text);
  });

  it('names the newest of those without an earlier version, and counts the rest', () => {
    const many = Array.from({ length: 14 }, (_, i) => changed(`p-${i}`, i));
    const text = waysBackText(waysBack(many, 'nodewall'), 'nodewall');
    assert.match(text, /^p-4 /m);
    assert.doesNotMatch(text, /^p-3 /m);
    assert.match(text, /^4 more: -o json$/m);
  });

  it('says where there is nothing', () => {
    assert.match(waysBackText([], 'nodewall'), /^Nothing to undo: the cluster has no ClusterNetworkPolicy/);
  });
});

const audit = (name: string): string =>
  `kubectl patch clusternetworkpolicy ${name} --type merge -p '{"spec":{"mode":"Audit"}}'`;
