import type { CompiledRule } from './compiled.ts';
import type { ApiGroup } from './objects.ts';

/** The fields that decide the position of a policy in the evaluation order. */
export interface Place {
  readonly tierPriority: number;
  readonly priority: number;
  readonly name: string;
  readonly apiGroup: ApiGroup;
}

/**
 * The total order of policies (docs/semantics.md section 2.2). The name breaks ties, so that all
 * nodes always have the same order.
 */
export function comparePlace(a: Place, b: Place): number {
  return (
    a.tierPriority - b.tierPriority ||
    a.priority - b.priority ||
    compareCodePoints(a.name, b.name) ||
    compareCodePoints(a.apiGroup, b.apiGroup)
  );
}

/**
 * Compares by UTF-16 code unit, which is code point order here: names that passed validation are
 * ASCII.
 */
function compareCodePoints(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Evaluation order of rules: ingress first, then by the order of their policies, then by index. */
export function compareRules(a: CompiledRule, b: CompiledRule): number {
  return (
    Number(a.source.direction === 'egress') - Number(b.source.direction === 'egress') ||
    comparePlace(placeOf(a), placeOf(b)) ||
    a.source.ruleIndex - b.source.ruleIndex
  );
}

function placeOf({ tierPriority, priority, source }: CompiledRule): Place {
  return { tierPriority, priority, name: source.policy, apiGroup: source.apiGroup };
}

/** A copy, in evaluation order. */
export function inEvaluationOrder(rules: readonly CompiledRule[]): CompiledRule[] {
  return [...rules].sort(compareRules);
}
