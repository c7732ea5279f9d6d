import assert from 'node:assert/strict';
import { closing, rulesetOf } from '../../../test/fake/node-state.ts';
import { type BaseChain, type Chain, plainChain } from '../../render/ruleset.ts';
import { withUnusedBaseChains } from './current-state.ts';

const desired = rulesetOf([closing('p', 80)]);

function there(name: string, base: BaseChain | null): { chains: Map<string, Chain> } {
  return { chains: new Map([[name, { ...plainChain(name, []), base }]]) };
}

const prerouting = { type: 'filter', hook: 'prerouting', priority: -90, policy: 'accept' } as const;

describe('base chains that are no longer needed', () => {
  it('stay, without rules', () => {
    const { chains, ...others } = withUnusedBaseChains(desired, there('prerouting', prerouting));
    assert.deepEqual(
      [...chains.keys()].filter((name) => !desired.chains.has(name)),
      ['prerouting'],
    );
    assert.deepEqual(chains.get('prerouting')?.rules, []);
    assert.deepEqual(others, { sets: desired.sets, maps: desired.maps });
  });

  it('of egress gateways stay while the others of these are there', () => {
    const seal = there('egress-seal', { ...prerouting, hook: 'postrouting', priority: 110 });
    const steer = { ...plainChain('egress-steer', []), base: { ...prerouting, priority: -80 } };
    const steering = { ...desired, chains: new Map([...desired.chains, ['egress-steer', steer]]) };
    assert.deepEqual(withUnusedBaseChains(steering, seal).chains.get('egress-seal')?.rules, []);
    assert.equal(withUnusedBaseChains(desired, seal), desired);
  });

  it('are only those of nodewall, at its hooks', () => {
    assert.equal(withUnusedBaseChains(desired, there('stranger', prerouting)), desired);
    assert.equal(withUnusedBaseChains(desired, there('prerouting', null)), desired);
    assert.equal(withUnusedBaseChains(desired, there('prerouting', { ...prerouting, priority: 0 })), desired);
    assert.equal(withUnusedBaseChains(desired, there('input', prerouting)), desired);
  });
});
