import { BASELINE_PRIORITY } from '../baseline.ts';

/** The built-in tiers and their priorities (Antrea's). */
export const BUILT_IN_TIERS: Readonly<Record<string, number>> = Object.freeze(
  Object.assign(Object.create(null), {
    emergency: 50,
    securityops: 100,
    networkops: 150,
    platform: 200,
    application: 250,
    baseline: BASELINE_PRIORITY,
  }),
);

const CAMEL_CASE: readonly string[] = [
  'Emergency',
  'SecurityOps',
  'NetworkOps',
  'Platform',
  'Application',
  'Baseline',
];

/**
 * Whether a policy's `tier` names a built-in tier: in lower case, or as Antrea's CamelCase name.
 */
export function isBuiltInTier(name: string): boolean {
  return name in BUILT_IN_TIERS || CAMEL_CASE.includes(name);
}
