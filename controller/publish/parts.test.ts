import assert from 'node:assert/strict';
import type { CompiledPolicy, CompiledRule } from '../../apis/compiled.ts';
import { fromSet } from '../../test/fake/compiled-rule.ts';
import { type Part, partChanges, partsOf } from './parts.ts';
import type { Span } from './spans.ts';

const rule = (id: string): CompiledRule => ({ id, peers: fromSet(`of ${id}`) }) as unknown as CompiledRule;
const [one, two, three] = [rule('one'), rule('two'), rule('three')];
const [here, there, nowhere]: Span[] = [new Set(['a', 'b']), new Set(['b', 'c']), new Set<string>()];

function policy(...rules: readonly (readonly [CompiledRule, Span | undefined])[]): CompiledPolicy {
  return {
    apiGroup: 'nodewall.io',
    name: 'p',
    rules: rules.map(([each]) => each),
    spans: rules.map(([, span]) => span ?? new Set()),
  };
}

const names = (parts: readonly Part[]) => parts.map(({ content }) => content.part);

describe('parts', () => {
  it('are the rules of one policy by the nodes they apply to', () => {
    const parts = partsOf(policy([one, here], [two, there], [three, here], [rule('four'), nowhere]), []);
    assert.deepEqual(
      parts.map(({ span, content }) => [span, content.part, content.rules, content.addressSets]),
      [
        [here, 'nodewall.io/p/0', [one, three], ['of one', 'of three']],
        [there, 'nodewall.io/p/1', [two], ['of two']],
      ],
    );
  });

  it('keep name and content while they say the same, whomever they are for', () => {
    const before = partsOf(policy([one, here], [two, there]), []);
    const moved = new Set(['a', 'b', 'd']);
    const now = partsOf(policy([two, there], [one, moved]), before);
    assert.deepEqual(names(now), ['nodewall.io/p/1', 'nodewall.io/p/0']);
    assert.equal(now[0], before[1]);
    assert.equal(now[1]?.content, before[0]?.content);
    assert.deepEqual(partChanges(before, now), [{ before: before[0], now: now[1] }]);
  });

  it('keep their name when a rule of theirs is edited', () => {
    const before = partsOf(policy([one, here], [two, there]), []);
    const now = partsOf(policy([three, here], [two, there]), before);
    assert.deepEqual(names(now), names(before));
    assert.deepEqual(partChanges(before, now), [{ before: before[0], now: now[0] }]);
  });

  it('come and go', () => {
    const before = partsOf(policy([one, here], [two, there]), []);
    const now = partsOf(policy([two, there]), before);
    assert.deepEqual(partChanges(before, now), [{ before: before[0], now: null }]);
    const again = partsOf(policy([one, here], [two, there]), now);
    assert.deepEqual(names(again), ['nodewall.io/p/0', 'nodewall.io/p/1']);
    assert.deepEqual(partChanges(now, again), [{ before: null, now: again[0] }]);
  });
});
