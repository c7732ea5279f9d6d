import assert from 'node:assert/strict';
import type { CompiledRule } from '../../apis/compiled.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { compiledRule, nodeState, stateOf } from '../../test/fake/node-state.ts';
import { policy, type Rule } from '../../test/kernel/manifests.ts';
import { policyChanges } from './holds.ts';
import type { OutwardProbe } from './probes.ts';
import { newlyDenies, policiesAtFault } from './verdicts.ts';

const PROBE: OutwardProbe = {
  kind: 'outward',
  name: 'backup',
  attempts: [{ kind: 'tcp', address: '198.51.100.7', port: 4443 }],
};

function out(name: string, action: Rule['action'], port = 4443, priority = 5): object {
  return policy(name, {
    priority,
    egress: [{ name: 'out', action, ports: [{ protocol: 'TCP', port }] }],
  });
}

function atFault(before: readonly object[], now: readonly object[]): string[] {
  const [old, state] = [nodeState(...before), nodeState(...now)];
  const changes = policyChanges(old, state);
  return policiesAtFault(PROBE, { state, before: old, changes, config: DEFAULT_CONFIG });
}

describe('policies at fault', () => {
  const good = out('good', 'Drop', 23);

  it('are those of the rules that deny the probe', () => {
    assert.deepEqual(atFault([], [good, out('bad', 'Drop')]), ['nodewall.io/bad']);
    assert.deepEqual(atFault([], [good, out('bad', 'Drop'), out('worse', 'Reject')]), [
      ...['nodewall.io/bad', 'nodewall.io/worse'],
    ]);
  });

  it('are none where nothing denies it, or where the confirmed rules do', () => {
    assert.deepEqual(atFault([], [good]), []);
    assert.deepEqual(atFault([out('old', 'Drop')], [out('old', 'Drop'), good]), []);
  });

  it('are the one that allowed it before, where the rule at fault has not changed', () => {
    const old = out('old', 'Drop', 4443, 9);
    const allow = out('allow', 'Allow', 4443, 1);
    assert.deepEqual(atFault([old, allow], [old, good]), ['nodewall.io/allow']);
    const changed = policy('old', {
      priority: 9,
      egress: [
        { name: 'out', action: 'Drop', ports: [{ protocol: 'TCP', port: 4443 }] },
        { name: 'more', action: 'Drop', ports: [{ protocol: 'TCP', port: 24 }] },
      ],
    });
    assert.deepEqual(atFault([old, allow], [changed, good]), ['nodewall.io/allow']);
  });

  it('are not looked for among very many changes', () => {
    const many = Array.from({ length: 17 }, (_, i) => out(`p${i}`, 'Drop', i === 0 ? 4443 : 100 + i));
    assert.deepEqual(atFault([], many), []);
    assert.deepEqual(atFault([], many.slice(0, 16)), ['nodewall.io/p0']);
  });
});

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
