import type { Compiled, CompiledRule, NodeState } from '../../apis/compiled.ts';
import { inEvaluationOrder } from '../../apis/order.ts';

/** What of everything compiled one node needs: the rules that apply to it, and the AddressSets and ServiceSets those name. */
export function nodeView(compiled: Compiled, node: string): NodeState {
  const rules: CompiledRule[] = [];
  for (const policy of compiled.policies) {
    for (const [i, rule] of policy.rules.entries()) if (policy.spans[i]?.has(node)) rules.push(rule);
  }
  const addressSets = [compiled.allNodes, ...rules.flatMap((rule) => rule.addressSets)];
  const serviceSets = rules.flatMap((rule) => rule.serviceSets);
  return {
    node,
    rules: inEvaluationOrder(rules),
    addressSets: picked(compiled.addressSets, addressSets, 'AddressSet'),
    serviceSets: picked(compiled.serviceSets, serviceSets, 'ServiceSet'),
    allNodes: compiled.allNodes,
    nodeAddresses: compiled.nodeAddresses.get(node) ?? [],
  };
}

/** Sorted by id, each once. */
function picked<T>(sets: ReadonlyMap<string, T>, ids: readonly string[], kind: string): Map<string, T> {
  return new Map(
    [...new Set(ids)].sort().map((id): [string, T] => {
      const set = sets.get(id);
      if (set === undefined) throw new Error(`no ${kind} ${id}`);
      return [id, set];
    }),
  );
}
