import type { ClusterObject, ClusterObjects } from '../../apis/objects.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import { sameValue } from '../../controller/watch/same-value.ts';

/**
 * The objects, with equal ones of the state before in their place: stage 1 keeps the same
 * JavaScript object for what did not change, and later stages take it for unchanged.
 */
export function keptFrom(before: ClusterObjects | null, now: ClusterObjects): ClusterObjects {
  const known = new Map(
    Object.values(before ?? {}).flatMap((list: readonly ClusterObject[]) =>
      list.map((object) => [identityOf(object), object] as const),
    ),
  );
  const kept = <T extends ClusterObject>(object: T): T => {
    const there = known.get(identityOf(object));
    return there !== undefined && sameValue(there, object) ? (there as T) : object;
  };
  return {
    nodes: now.nodes.map(kept),
    namespaces: now.namespaces.map(kept),
    pods: now.pods.map(kept),
    services: now.services.map(kept),
    endpointSlices: now.endpointSlices.map(kept),
    groups: now.groups.map(kept),
    tiers: now.tiers.map(kept),
    policies: now.policies.map(kept),
    guardrails: now.guardrails.map(kept),
    egressGateways: now.egressGateways.map(kept),
    egressPolicies: now.egressPolicies.map(kept),
    insideNetworks: now.insideNetworks.map(kept),
  };
}
