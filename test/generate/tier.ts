import fc from 'fast-check';
import type { TierManifest } from '../oracle/manifest.ts';
import { policyApiVersions } from '../oracle/manifest.ts';
import { oneOf } from './choice.ts';

/** Names of custom tiers. */
export const customTierNames = ['gold', 'silver', 'edge-first'];

/** The tier that Pass leads to. */
export const baselineNames = ['baseline', 'Baseline'];

/**
 * Names a policy may say without any Tier object, beside baseline, which is drawn together with
 * Pass.
 */
export const builtInTierNames = [
  ...['emergency', 'securityops', 'networkops', 'platform', 'application'],
  ...['Emergency', 'SecurityOps', 'NetworkOps', 'Platform', 'Application'],
];

/** Priorities of built-in tiers, which custom ones must not have. */
const builtInPriorities = [50, 100, 150, 200, 250, 253];

/** Custom tiers of both API groups: the same name may be in both, a priority is in one alone. */
export function tiers(): fc.Arbitrary<TierManifest[]> {
  const tier = fc
    .record({
      name: oneOf(customTierNames),
      apiVersion: oneOf(policyApiVersions),
      priority: customPriority(),
    })
    .map(({ name, apiVersion, priority: number }) => {
      const spec = { priority: number };
      return { apiVersion, kind: 'Tier', metadata: { name }, spec };
    });
  return fc.uniqueArray(tier, {
    maxLength: 4,
    comparator: (a, b) =>
      a.spec.priority === b.spec.priority ||
      (a.apiVersion === b.apiVersion && a.metadata.name === b.metadata.name),
  });
}

/** What a custom Tier's priority may be. */
export function customPriority(): fc.Arbitrary<number> {
  return fc.integer({ min: 1, max: 252 }).filter((number) => !builtInPriorities.includes(number));
}

/** True for a tier that needs no object: a built-in name, or none, which means application. */
export function isBuiltIn(name: string | undefined): boolean {
  return name === undefined || [...builtInTierNames, ...baselineNames].includes(name);
}
