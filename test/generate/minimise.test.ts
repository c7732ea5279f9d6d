import assert from 'node:assert/strict';
import type { PolicyManifest } from '../oracle/manifest.ts';
import { oracle } from '../oracle/oracle.ts';
import { minimise } from './minimise.ts';
import type { Scenario } from './scenario.ts';
import { sampleScenario } from './scenario.ts';

/** A stand-in for a wrong implementation: wrong about what the failsafe turns into a Reject. */
function isFailing(scenario: Scenario): boolean {
  const judge = oracle(scenario);
  return scenario.flows
    .map(judge)
    .some(({ reason, verdict }) => reason === 'failsafe' && verdict === 'Reject');
}

function failing(): Scenario {
  for (let seed = 0; ; seed++) {
    const sample = sampleScenario(seed, 8);
    if (isFailing(sample)) return sample;
  }
}

describe('minimise', () => {
  it('leaves what the failure needs: one flow, the rules in question, the Nodes', async () => {
    const found = await minimise(failing(), isFailing);
    assert.ok(isFailing(found));
    assert.equal(found.flows.length, 1);
    const kinds = (found.objects as PolicyManifest[]).map(({ kind }) => kind);
    assert.ok(!kinds.includes('Pod'), kinds.join());
    assert.ok(kinds.filter((kind) => kind === 'ClusterNetworkPolicy').length <= 2, kinds.join());
  });

  it('leaves a scenario alone that does not fail without any of its parts', async () => {
    const sample = sampleScenario(1, 2);
    assert.deepEqual(await minimise(sample, () => false), sample);
  });
});
