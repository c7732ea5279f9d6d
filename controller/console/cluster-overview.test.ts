import assert from 'node:assert/strict';
import { rolloutProgress } from '../../apis/rollout.ts';
import { namingNodesOnce } from './cluster-overview.ts';

const NAMES = Array.from({ length: 20 }, (_, i) => `worker-${i}.example.internal`);

function policies(names: readonly string[], key: string) {
  const members = names.map((name) => ({ name, uid: name, from: 1, to: 2 }));
  const decision = { serial: 1, key, state: 'Progressing', step: 1, policies: members } as const;
  const failed = NAMES.map((node) => ({ node, reason: 'x'.repeat(200) }));
  const rollout = {
    failed,
    silent: failed,
    waiting: NAMES,
    decision: { ...decision, through: '', firsts: [] },
  };
  return names.map((name) => ({ name, generation: 2, rollout }));
}

describe('rollouts in the overview', () => {
  it('name the nodes of a group once', () => {
    const members = Array.from({ length: 100 }, (_, i) => `policy-${i}`);
    const found = namingNodesOnce(
      rolloutProgress([...policies(['a'], 'a'), ...policies(members, 'group g'), ...policies(['b'], 'b')]),
    );
    assert.deepEqual(
      found
        .filter(({ failed, silent, waiting }) => failed.length + silent.length + waiting.length === 60)
        .map(({ policy }) => policy),
      ['a', 'policy-0', 'b'],
    );
    assert.equal(found.length, 102);
    assert.ok(JSON.stringify(found).length < 80_000, `${JSON.stringify(found).length}`);
  });
});
