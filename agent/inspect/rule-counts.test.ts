import assert from 'node:assert/strict';
import type { CountedRule, RuleCounts } from '../../apis/rule-counts.ts';
import { unusedRules } from './rule-counts.ts';

const DAY = 86_400_000;
const NOW = Date.UTC(2026, 0, 31);
const ago = (days: number): string => new Date(NOW - days * DAY).toISOString();

function counted(
  rule: string,
  since: string | null,
  lastHit: string | null,
  packets = lastHit ? 1 : 0,
): CountedRule {
  return {
    id: `p/${rule}`,
    direction: 'ingress',
    tier: 'application',
    policy: 'p',
    apiGroup: 'nodewall.io',
    rule,
    ruleIndex: 0,
    action: 'Drop',
    mode: 'Enforce',
    traffic: 'Host',
    packets,
    bytes: 0,
    lastHit,
    since,
  };
}
function node(name: string, ...rules: readonly CountedRule[]): RuleCounts {
  return { node: name, rules, spoofed: { packets: 0, bytes: 0, lastHit: null }, remark: null };
}
const names = (rules: readonly { readonly rule: string }[]): string[] => rules.map(({ rule }) => rule);

describe('unused rules', () => {
  it('are those that no packet ever matched, without a time', () => {
    const here = node(
      'a',
      counted('never', ago(1), null),
      counted('old', ago(90), ago(80)),
      counted('new', null, null),
    );
    const { rules, tooYoung, all } = unusedRules([here], null);
    assert.deepEqual([names(rules), names(tooYoung), all], [['never'], ['new'], 3]);
  });

  it('are those without a hit for so long, if they are counted for so long', () => {
    const here = node(
      'a',
      counted('never', ago(40), null),
      counted('old', ago(90), ago(31)),
      counted('lately', ago(90), ago(29)),
      counted('young', ago(10), null),
    );
    const { rules, tooYoung } = unusedRules([here], NOW - 30 * DAY);
    assert.deepEqual([names(rules), names(tooYoung)], [['never', 'old'], ['young']]);
  });

  it('are unused on every node; the shortest time of counting is theirs', () => {
    const a = node(
      'a',
      counted('both', ago(40), null),
      counted('used', ago(40), null),
      counted('one', ago(40), null),
    );
    const b = node('b', counted('both', ago(20), null), counted('used', ago(40), ago(1)));
    const { rules } = unusedRules([a, b], null);
    assert.deepEqual(
      rules.map(({ rule, nodes, since }) => [rule, nodes, since]),
      [
        ['both', ['a', 'b'], ago(20)],
        ['one', ['a'], ago(40)],
      ],
    );
    assert.deepEqual(names(unusedRules([a, b], NOW - 30 * DAY).tooYoung), ['both']);
  });

  it('keep their names where another node gives their id to another rule', () => {
    const lie = { ...counted('lie', ago(40), null), id: 'p/rule' };
    const { rules } = unusedRules([node('a', lie), node('b', counted('rule', ago(40), null))], null);
    assert.deepEqual(
      rules.map(({ rule, nodes }) => [rule, nodes]),
      [
        ['lie', ['a']],
        ['rule', ['b']],
      ],
    );
  });

  it('are none whose packets were counted at an unknown time', () => {
    assert.deepEqual(names(unusedRules([node('a', counted('x', ago(9), null, 5))], null).rules), []);
  });
});
