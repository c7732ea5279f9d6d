import assert from 'node:assert/strict';
import { closing, rulesetOf } from '../../../test/fake/node-state.ts';
import { plainChain } from '../../render/plain.ts';
import type { BaseChain, Chain } from '../../render/ruleset.ts';
import { withRetired } from './retired.ts';

const desired = rulesetOf([closing('p', 80)]);

function there(name: string, base: BaseChain | null): { chains: Map<string, Chain> } {
  return { chains: new Map([[name, { ...plainChain(name, []), base }]]) };
}

const prerouting = { type: 'filter', hook: 'prerouting', priority: -90, policy: 'accept' } as const;

describe('base chains that nothing needs any more', () => {
  it('stay, without rules', () => {
    const { chains, ...others } = withRetired(desired, there('prerouting', prerouting));
    assert.deepEqual(
      [...chains.keys()].filter((name) => !desired.chains.has(name)),
      ['prerouting'],
    );
    assert.deepEqual(chains.get('prerouting')?.rules, []);
    assert.deepEqual(others, { sets: desired.sets, maps: desired.maps });
  });

  it('are only those of ours, at the hook that ours have', () => {
    assert.equal(withRetired(desired, there('stranger', prerouting)), desired);
    assert.equal(withRetired(desired, there('prerouting', null)), desired);
    assert.equal(withRetired(desired, there('prerouting', { ...prerouting, priority: 0 })), desired);
    assert.equal(withRetired(desired, there('input', prerouting)), desired);
  });
});
