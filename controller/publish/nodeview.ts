import type { Compiled, CompiledRule, NodeState } from '../../apis/compiled.ts';

/** What of everything compiled one node needs: the rules that apply to it, and the AddressSets those name. */
export function nodeView(compiled: Compiled, node: string): NodeState {
  const rules: CompiledRule[] = [];
  for (const policy of compiled.policies) {
    for (const [i, rule] of policy.rules.entries()) if (policy.spans[i]?.has(node)) rules.push(rule);
  }
  // Policies come in evaluation order and rules in theirs, so a stable split by direction keeps it.
  const ordered = [
    ...rules.filter((rule) => rule.source.direction === 'ingress'),
    ...rules.filter((rule) => rule.source.direction === 'egress'),
  ];
  const ids = new Set([compiled.allNodes, ...ordered.flatMap((rule) => rule.addressSets)]);
  const addressSets = [...ids].sort().flatMap((id) => {
    const set = compiled.addressSets.get(id);
    return set === undefined ? [] : [[id, set] as const];
  });
  return {
    node,
    rules: ordered,
    addressSets: new Map(addressSets),
    allNodes: compiled.allNodes,
    nodeAddresses: compiled.nodeAddresses.get(node) ?? [],
  };
}
