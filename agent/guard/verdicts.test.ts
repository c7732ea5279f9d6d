import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { nodeState } from '../../test/fake/node-state.ts';
import { policy, type Rule } from '../../test/kernel/manifests.ts';
import { policyChanges } from './holds.ts';
import type { OutwardProbe } from './probes.ts';
import { policiesAtFault } from './verdicts.ts';

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
