import type { CompiledRule, NodeState } from '../../../apis/compiled.ts';
import { inEvaluationOrder } from '../../../apis/order.ts';
import { namedBy } from '../../../apis/rule-peer.ts';

/** Identifies one policy among those of a node. */
export function policyKey({ source }: CompiledRule): string {
  return `${source.apiGroup}/${source.policy}`;
}

/**
 * The state with the rules of one policy taken from another state: the policy's last version that
 * was applied, or no rules if there is none.
 */
export function substitute(state: NodeState, key: string, from: NodeState | null): NodeState {
  const replacement = from?.rules.filter((rule) => policyKey(rule) === key) ?? [];
  const rules = [...state.rules.filter((rule) => policyKey(rule) !== key), ...replacement];
  const named = namedBy(rules);
  const addressSets = [state.allNodes, state.controllers, ...named.addressSets];
  return {
    ...state,
    rules: inEvaluationOrder(rules),
    addressSets: pick(addressSets, state.addressSets, from?.addressSets),
    serviceSets: pick(named.serviceSets, state.serviceSets, from?.serviceSets),
  };
}

/** The named sets, sorted by id; if both maps have a set, that of `sets` is taken. */
function pick<T>(
  ids: readonly string[],
  sets: ReadonlyMap<string, T>,
  others: ReadonlyMap<string, T> = new Map(),
): Map<string, T> {
  return new Map(
    [...new Set(ids)].sort().flatMap((id): [string, T][] => {
      const set = sets.get(id) ?? others.get(id);
      return set === undefined ? [] : [[id, set]];
    }),
  );
}

/**
 * Keys of the policies whose rules differ between two states, sorted: the suspects when an apply
 * fails.
 */
export function changedPolicies(state: NodeState, before: NodeState | null): string[] {
  const old = rulesText(before);
  const now = rulesText(state);
  return [...now.keys()].filter((key) => old.get(key) !== now.get(key)).sort();
}

function rulesText(state: NodeState | null): Map<string, string> {
  const groups = Map.groupBy(state?.rules ?? [], policyKey);
  return new Map([...groups].map(([key, rules]) => [key, JSON.stringify(rules)]));
}
