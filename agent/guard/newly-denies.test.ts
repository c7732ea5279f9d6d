import assert from 'node:assert/strict';
import type { CompiledRule } from '../../apis/compiled.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { compiledRule, stateOf } from '../../test/fake/compiled-rule.ts';
import { policyChanges } from './holds.ts';
import { newlyDenies } from './newly-denies.ts';

describe('whether a change denies more', () => {
  const port = (name: string, action: CompiledRule['action'], number: number): CompiledRule =>
    compiledRule(name, { action, services: [{ protocol: 'tcp', ports: [number, number] }] });
  const state = (...rules: readonly CompiledRule[]) => stateOf(rules, { nodeAddresses: ['192.0.2.1'] });
  const denies = (before: readonly CompiledRule[] | null, now: readonly CompiledRule[]): boolean => {
    const old = before === null ? null : state(...before);
    return newlyDenies(old, state(...now), policyChanges(old, state(...now)), DEFAULT_CONFIG);
  };
  const [drop, wide] = [port('drop', 'Drop', 22), compiledRule('wide')];

  it('is so for a new Drop, of the first rules too, and for an Allow that goes', () => {
    assert.equal(denies(null, [drop]), true);
    assert.equal(denies([drop], [drop, port('more', 'Drop', 23)]), true);
    assert.equal(denies([port('ok', 'Allow', 22), wide], [wide]), true);
  });

  it('is not so for an Allow, a Drop that goes, and a Drop that others cover', () => {
    assert.equal(denies([wide], [port('ok', 'Allow', 22), wide]), false);
    assert.equal(denies([drop, wide], [wide]), false);
    assert.equal(denies([wide], [wide, drop]), false, 'the exact difference says so');
    assert.equal(denies([drop], [{ ...drop, source: { ...drop.source, generation: 7 } }]), false);
  });

  it('is assumed where the rules are too many for the difference', () => {
    const many = Array.from({ length: 3_000 }, (_, i) => port(`r${i}`, 'Drop', 1_000 + i));
    assert.equal(denies([wide, ...many], [wide, ...many, drop]), true);
  });
});
