import { compareText } from '../lib/sharing/lists.ts';
import type { CompiledRule } from './compiled.ts';
import type { ApiGroup } from './objects.ts';

/** The fields that decide the position of a policy in the evaluation order. */
export interface EvaluationPosition {
  readonly tierPriority: number;
  readonly priority: number;
  readonly name: string;
  readonly apiGroup: ApiGroup;
}

/**
 * The total order of policies (docs/semantics.md section 2.2). The name breaks ties, so that all
 * nodes always have the same order.
 */
export function comparePlace(a: EvaluationPosition, b: EvaluationPosition): number {
  return (
    a.tierPriority - b.tierPriority ||
    a.priority - b.priority ||
    compareText(a.name, b.name) ||
    compareText(a.apiGroup, b.apiGroup)
  );
}

/** Evaluation order of rules: ingress first, then by the order of their policies, then by index. */
export function compareRules(a: CompiledRule, b: CompiledRule): number {
  return (
    Number(a.source.direction === 'egress') - Number(b.source.direction === 'egress') ||
    comparePlace(placeOf(a), placeOf(b)) ||
    a.source.ruleIndex - b.source.ruleIndex
  );
}

function placeOf({ tierPriority, priority, source }: CompiledRule): EvaluationPosition {
  return { tierPriority, priority, name: source.policy, apiGroup: source.apiGroup };
}

/** A copy, in evaluation order. */
export function inEvaluationOrder(rules: readonly CompiledRule[]): CompiledRule[] {
  return [...rules].sort(compareRules);
}

/**
 * Priority of the baseline tier, the only one that is evaluated after a Pass; no other tier can
 * have it.
 */
export const BASELINE_PRIORITY = 253;

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
