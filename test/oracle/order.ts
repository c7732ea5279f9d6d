import type { Manifest, TierManifest } from './manifest.ts';
import { apiGroupOf, findNamed } from './manifest.ts';

/** A tier as a policy finds it. */
interface FoundTier {
  name: string;
  priority: number;
}

/** The tier that Pass leads to; no custom tier may have its priority. */
export const baselinePriority = 253;

const builtInTiers: Readonly<Record<string, number>> = {
  emergency: 50,
  securityops: 100,
  networkops: 150,
  platform: 200,
  application: 250,
  baseline: baselinePriority,
};
const camelCaseTiers: Readonly<Record<string, string>> = {
  Emergency: 'emergency',
  SecurityOps: 'securityops',
  NetworkOps: 'networkops',
  Platform: 'platform',
  Application: 'application',
  Baseline: 'baseline',
};

/** Looks a policy's tier up: built in, then in the policy's own API group, then in the other. */
export function findTier(
  objects: readonly object[],
  policy: Manifest & { spec: { tier?: string } },
): FoundTier {
  const written = policy.spec.tier ?? 'application';
  const name = camelCaseTiers[written] ?? written;
  const builtIn = builtInTiers[name];
  if (builtIn !== undefined) return { name, priority: builtIn };
  const found = findNamed(objects, 'Tier', name, apiGroupOf(policy.apiVersion));
  const tier = found as TierManifest | undefined;
  if (tier === undefined) throw new Error(`policy ${policy.metadata.name} names an unknown tier: ${written}`);
  return { name, priority: tier.spec.priority };
}

/** What a rule's place in the order depends on. */
export interface OrderKey {
  tierPriority: number;
  priority: number;
  policy: string;
  apiGroup: string;
  ruleIndex: number;
}

/** The total order of SEMANTICS section 2, as a comparator. */
export function compareOrder(a: OrderKey, b: OrderKey): number {
  return (
    a.tierPriority - b.tierPriority ||
    a.priority - b.priority ||
    compareCodePoints(a.policy, b.policy) ||
    compareCodePoints(a.apiGroup, b.apiGroup) ||
    a.ruleIndex - b.ruleIndex
  );
}

/** Compares by code point, as names and API groups are compared. */
export function compareCodePoints(a: string, b: string): number {
  const left = [...a].map((char) => char.codePointAt(0) ?? 0);
  const right = [...b].map((char) => char.codePointAt(0) ?? 0);
  for (const [index, point] of left.entries()) {
    const other = right[index];
    if (other === undefined) return 1;
    if (point !== other) return point - other;
  }
  return left.length - right.length;
}
