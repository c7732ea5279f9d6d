import assert from 'node:assert/strict';
import type { PolicyManifest } from '../oracle/manifest.ts';
import { objectsOfKind, policyApiVersions } from '../oracle/manifest.ts';
import { oracle } from '../oracle/oracle.ts';
import { minimise } from './minimise.ts';
import type { Scenario } from './scenario.ts';
import { ALL_FEATURES, sample, sampleScenario } from './scenario.ts';

/** A stand-in for a wrong implementation: wrong about what the failsafe turns into a Reject. */
function isFailing(scenario: Scenario): boolean {
  const judge = oracle(scenario);
  return scenario.flows
    .map(judge)
    .some(({ reason, verdict }) => reason === 'failsafe' && verdict === 'Reject');
}

function failing(): Scenario {
  for (let seed = 0; ; seed++) {
    const drawn = sampleScenario(seed, 8);
    if (isFailing(drawn)) return drawn;
  }
}

/** Another one: wrong about groups and names among the peers of a rule that decides. */
function isMisled(scenario: Scenario): boolean {
  const judge = oracle(scenario);
  const policies = objectsOfKind(
    scenario.objects,
    policyApiVersions,
    'ClusterNetworkPolicy',
  ) as PolicyManifest[];
  return scenario.flows.some((flow) => {
    const { policy, ruleIndex, verdict } = judge(flow);
    const named = policies.filter(({ metadata }) => metadata.name === policy);
    const rules = named.map(({ spec }) => spec[flow.direction]?.[ruleIndex ?? -1]);
    return rules.some(
      (rule) =>
        rule?.action === verdict &&
        [...(rule.from ?? []), ...(rule.to ?? [])].some(({ group, fqdn }) => (group ?? fqdn) !== undefined),
    );
  });
}

describe('minimise', () => {
  it('keeps what the failure needs: one flow, its rules, the Nodes', async () => {
    const found = await minimise(failing(), isFailing);
    assert.ok(isFailing(found));
    assert.equal(found.flows.length, 1);
    const kinds = (found.objects as PolicyManifest[]).map(({ kind }) => kind);
    const others = (found.objects as PolicyManifest[]).filter(({ kind }) => kind !== 'Pod');
    const isNeeded = others.length === kinds.length || !isFailing({ ...found, objects: others });
    assert.ok(isNeeded, 'the Pods are not needed');
    assert.ok(kinds.filter((kind) => kind === 'ClusterNetworkPolicy').length <= 2, kinds.join());
  });

  it('keeps scenarios valid: the oracle accepts all that it tries', async () => {
    const drawn = Array.from({ length: 60 }, (_, seed) => sample(seed, { size: 4, features: ALL_FEATURES }));
    const misled = drawn.filter(isMisled).slice(0, 5);
    assert.equal(misled.length, 5);
    for (const found of await Promise.all(misled.map((one) => minimise(one, isMisled)))) {
      assert.equal(found.flows.length, 1);
      assert.ok(found.objects.length <= 6, JSON.stringify(found.objects));
      assert.ok(Object.keys(found.names).length <= 2, JSON.stringify(found.names));
    }
  });

  it('keeps a scenario that needs all its parts to fail', async () => {
    const drawn = sampleScenario(1, 2);
    assert.deepEqual(await minimise(drawn, () => false), drawn);
  });
});
