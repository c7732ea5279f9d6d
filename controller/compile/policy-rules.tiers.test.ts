import assert from 'node:assert/strict';
import type { Tier } from '../../apis/objects.ts';
import { tierName, tierPriority } from './policy-rules.ts';

const tier = (apiGroup: Tier['apiGroup'], name: string, priority: number): Tier => ({
  kind: 'Tier',
  apiGroup,
  name,
  priority,
});

describe('tierPriority', () => {
  it('knows the built-in tiers in lower case and CamelCase', () => {
    for (const [name, priority] of [
      ['emergency', 50],
      ['SecurityOps', 100],
      ['NetworkOps', 150],
      ['platform', 200],
      ['Application', 250],
      ['baseline', 253],
    ] as const) {
      assert.equal(tierPriority([], 'nodewall.io', name), priority);
    }
    assert.equal(tierName(undefined), 'application');
    assert.equal(tierName('SecurityOps'), 'securityops');
  });

  it('looks in the policy’s own API group first, then in the other', () => {
    const both = [tier('crd.antrea.io', 'gold', 10), tier('nodewall.io', 'gold', 20)];
    assert.equal(tierPriority(both, 'nodewall.io', 'gold'), 20);
    assert.equal(tierPriority(both, 'crd.antrea.io', 'gold'), 10);
    assert.equal(tierPriority(both.slice(0, 1), 'nodewall.io', 'gold'), 10);
    assert.equal(tierPriority(both, 'nodewall.io', 'silver'), null);
  });
});
