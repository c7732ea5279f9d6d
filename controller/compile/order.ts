import type { ApiGroup } from '../../apis/objects.ts';

/** What decides a rule's place; two rules of one policy and direction differ in `ruleIndex`. */
export interface Place {
  readonly tierPriority: number;
  readonly priority: number;
  readonly name: string;
  readonly apiGroup: ApiGroup;
}

/** The total order of policies (SEMANTICS.md section 2): the name breaks ties, so every node agrees at any time. */
export function comparePlace(a: Place, b: Place): number {
  return (
    a.tierPriority - b.tierPriority ||
    a.priority - b.priority ||
    compareCodePoints(a.name, b.name) ||
    compareCodePoints(a.apiGroup, b.apiGroup)
  );
}

/** By code point; names are ASCII where validation passed, so UTF-16 order is the same. */
export function compareCodePoints(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
