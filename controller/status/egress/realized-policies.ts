import type { EgressPolicy } from '../../../apis/egress/objects.ts';
import { egressPolicyKey } from '../../egress/class.ts';
import type { CompiledEgress } from '../../egress/compile-egress.ts';

/** Where the pods of a policy are. */
export interface PolicyPods {
  /** In the family that has more of them: a pod may have an address of each. */
  readonly pods: number;
  readonly nodes: ReadonlySet<string>;
}

/**
 * Pods and nodes of each policy, by egressPolicyKey, for destinations on which it decides. One pass
 * over the addresses of all pods.
 */
export function podsOfPolicies({
  sources,
  classes,
  decisions,
}: CompiledEgress): ReadonlyMap<string, PolicyPods> {
  const counts = new Map<string, { v4: number; v6: number; nodes: Set<string> }>();
  for (const [node, own] of sources) {
    for (const [address, id] of own) {
      if (id === null) continue;
      const count = counts.get(id) ?? { v4: 0, v6: 0, nodes: new Set<string>() };
      counts.set(id, count);
      if (address.includes(':')) count.v6++;
      else count.v4++;
      if (node !== '') count.nodes.add(node);
    }
  }
  const found = new Map<string, { pods: number; nodes: Set<string> }>();
  for (const [id, { v4, v6, nodes }] of counts) {
    const one = classes.get(id);
    const policies = new Set<EgressPolicy>();
    for (const { outcome } of [...(one?.ipv4 ?? []), ...(one?.ipv6 ?? [])]) {
      const decision = decisions.get(outcome);
      for (const policy of [decision?.policy ?? null, ...(decision?.audited ?? [])])
        if (policy !== null) policies.add(policy);
    }
    for (const policy of policies) {
      const total = found.get(egressPolicyKey(policy)) ?? { pods: 0, nodes: new Set<string>() };
      found.set(egressPolicyKey(policy), total);
      total.pods += Math.max(v4, v6);
      for (const node of nodes) total.nodes.add(node);
    }
  }
  return found;
}
