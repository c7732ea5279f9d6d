import type { AddressSet, CompiledRule, NodeState } from '../../apis/compiled.ts';
import { inEvaluationOrder } from '../../apis/order.ts';

/** Names one policy among those of a node. */
export function policyKey({ source }: CompiledRule): string {
  return `${source.apiGroup}/${source.policy}`;
}

/**
 * The state with one policy's rules taken from another state: its last good version, or no rules where that has none.
 */
export function substitute(state: NodeState, key: string, from: NodeState | null): NodeState {
  const replacement = from?.rules.filter((rule) => policyKey(rule) === key) ?? [];
  const rules = [...state.rules.filter((rule) => policyKey(rule) !== key), ...replacement];
  const known = new Map([...(from?.addressSets ?? []), ...state.addressSets]);
  const ids = new Set([state.allNodes, ...rules.flatMap((rule) => rule.addressSets)]);
  const addressSets = new Map(
    [...ids].sort().flatMap((id): [string, AddressSet][] => {
      const set = known.get(id);
      return set === undefined ? [] : [[id, set]];
    }),
  );
  return { ...state, rules: inEvaluationOrder(rules), addressSets };
}

/** Keys of the policies whose rules differ between two states, sorted: the suspects when an apply fails. */
export function changedPolicies(state: NodeState, before: NodeState | null): string[] {
  const old = rulesText(before);
  const now = rulesText(state);
  return [...now.keys()].filter((key) => old.get(key) !== now.get(key)).sort();
}

function rulesText(state: NodeState | null): Map<string, string> {
  const groups = Map.groupBy(state?.rules ?? [], policyKey);
  return new Map([...groups].map(([key, rules]) => [key, JSON.stringify(rules)]));
}
