import type { CompiledRule } from './compiled.ts';
import type { ApiGroup } from './objects.ts';

/** What decides a policy's place. */
export interface Place {
  readonly tierPriority: number;
  readonly priority: number;
  readonly name: string;
  readonly apiGroup: ApiGroup;
}

/**
 * The total order of policies (SEMANTICS.md section 2): the name breaks ties, so every node agrees
 * at any time.
 */
export function comparePlace(a: Place, b: Place): number {
  return (
    a.tierPriority - b.tierPriority ||
    a.priority - b.priority ||
    compareCodePoints(a.name, b.name) ||
    compareCodePoints(a.apiGroup, b.apiGroup)
  );
}

/** By code point; names are ASCII where validation passed, so UTF-16 order is the same. */
function compareCodePoints(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Evaluation order of rules: ingress first, then by their policies' places, then by index. */
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

export function inEvaluationOrder(rules: readonly CompiledRule[]): CompiledRule[] {
  return [...rules].sort(compareRules);
}
