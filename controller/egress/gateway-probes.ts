import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import type { EgressProbe } from '../../apis/egress/objects.ts';
import { keptMap } from '../../lib/sharing/kept-map.ts';
import type { Allocation } from './allocation.ts';

export type NodeProbes = NodeEgress['probes'];

/** By candidate node: what its gateways ask, by their names. Equal parts are those of `before`. */
export function gatewayProbes(
  allocations: readonly Allocation[],
  before: ReadonlyMap<string, NodeProbes>,
): ReadonlyMap<string, NodeProbes> {
  const byNode = new Map<string, Map<string, readonly EgressProbe[]>>();
  for (const { gateway, candidates } of allocations) {
    const { probes } = gateway.spec;
    if (probes.length === 0) continue;
    for (const { name } of candidates) {
      const own = byNode.get(name) ?? new Map();
      byNode.set(name, own.set(gateway.name, probes));
    }
  }
  return keptMap(byNode, before);
}
