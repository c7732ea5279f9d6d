import type { AddressSet, Compiled, CompiledRule, NodeState } from '../../apis/compiled.ts';
import { inEvaluationOrder } from '../../apis/order.ts';

/** What of everything compiled one node needs: the rules that apply to it, and the AddressSets those name. */
export function nodeView(compiled: Compiled, node: string): NodeState {
  const rules: CompiledRule[] = [];
  for (const policy of compiled.policies) {
    for (const [i, rule] of policy.rules.entries()) if (policy.spans[i]?.has(node)) rules.push(rule);
  }
  const ids = new Set([compiled.allNodes, ...rules.flatMap((rule) => rule.addressSets)]);
  const addressSets = [...ids].sort().map((id): [string, AddressSet] => {
    const set = compiled.addressSets.get(id);
    if (set === undefined) throw new Error(`no AddressSet ${id}`);
    return [id, set];
  });
  return {
    node,
    rules: inEvaluationOrder(rules),
    addressSets: new Map(addressSets),
    allNodes: compiled.allNodes,
    nodeAddresses: compiled.nodeAddresses.get(node) ?? [],
  };
}
