import assert from 'node:assert/strict';
import type { CompiledPolicy, CompiledRule } from '../../apis/compiled.ts';
import { fromSet } from '../../test/fake/node-state.ts';
import { diffGroups, groupsOf, type RuleGroup, type Span } from './messages.ts';

const rule = (id: string, name = id): CompiledRule =>
  ({ id, source: { rule: name }, peers: fromSet(`of ${id}`) }) as unknown as CompiledRule;
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

const names = (groups: readonly RuleGroup[]) => groups.map(({ content }) => content.part);

describe('groupsOf', () => {
  it('groups the rules of a policy by the nodes they apply to', () => {
    const groups = groupsOf(policy([one, here], [two, there], [three, here], [rule('four'), nowhere]), []);
    assert.deepEqual(
      groups.map(({ span, content }) => [span, content.part, content.rules, content.addressSets]),
      [
        [here, 'nodewall.io/p/one', [one, three], ['of one', 'of three']],
        [there, 'nodewall.io/p/two', [two], ['of two']],
      ],
    );
  });

  it('keeps name and content while the rules are equal, whatever their nodes', () => {
    const before = groupsOf(policy([one, here], [two, there]), []);
    const moved = new Set(['a', 'b', 'd']);
    const now = groupsOf(policy([two, there], [one, moved]), before);
    assert.deepEqual(names(now), ['nodewall.io/p/two', 'nodewall.io/p/one']);
    assert.equal(now[0], before[1]);
    assert.equal(now[1]?.content, before[0]?.content);
    assert.deepEqual(diffGroups(before, now), [{ before: before[0], now: now[1] }]);
  });

  it('keeps the name when a rule of the group is edited', () => {
    const before = groupsOf(policy([one, here], [two, there]), []);
    const now = groupsOf(policy([rule('edited', 'one'), here], [two, there]), before);
    assert.deepEqual(names(now), names(before));
    assert.deepEqual(diffGroups(before, now), [{ before: before[0], now: now[0] }]);
  });

  it('adds and removes groups', () => {
    const before = groupsOf(policy([one, here], [two, there]), []);
    const now = groupsOf(policy([two, there]), before);
    assert.deepEqual(diffGroups(before, now), [{ before: before[0], now: null }]);
    const again = groupsOf(policy([one, here], [two, there]), now);
    assert.deepEqual(names(again), ['nodewall.io/p/one', 'nodewall.io/p/two']);
    assert.deepEqual(diffGroups(now, again), [{ before: null, now: again[0] }]);
  });

  it('names groups the same, whatever was there before', () => {
    const last = policy([three, here], [two, there]);
    const before = groupsOf(policy([two, here], [one, there]), []);
    assert.deepEqual(names(groupsOf(last, before)), names(groupsOf(last, [])));
  });
});
