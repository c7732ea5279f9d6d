import type { EgressConfig } from '../../../apis/egress/config.ts';
import type { EgressGateway, EgressPolicy } from '../../../apis/egress/objects.ts';
import type { ClusterObjects } from '../../../apis/objects.ts';
import type { CrossProblem } from '../../../apis/validate/problem.ts';
import { gatewayProblems, nodelessProblems, poolsOf } from './gateways.ts';
import {
  insideRanges,
  networkRanges,
  nodeRanges,
  podRanges,
  reservedRanges,
  serviceRanges,
} from './object-ranges.ts';
import { policyProblems } from './policies.ts';
import { AddressUnion, type OwnedRange, RangeIndex } from './ranges.ts';

/**
 * The problems of egress gateways and policies that other objects cause. None of them takes an
 * object out of force: a policy without its gateway or address fails closed, and connections would
 * leave with a wrong address without it. In O(n log n).
 *
 * @param invalid identities of gateways that exist and were rejected
 */
export function egressProblems(
  objects: ClusterObjects,
  config: EgressConfig,
  invalid: ReadonlySet<string>,
): CrossProblem<EgressGateway | EgressPolicy>[] {
  const { egressGateways: gateways, egressPolicies: policies, namespaces } = objects;
  if (gateways.length === 0 && policies.length === 0) return [];
  const pools = poolsOf(gateways);
  const others = inCluster(objects, config);
  const inside = new AddressUnion([
    ...insideRanges(objects, config),
    ...pools,
    ...networkRanges(objects.insideNetworks, config),
    ...reservedRanges(config),
  ]);
  const ofServices = objects.services.flatMap(serviceRanges);
  const owned = new RangeIndex([...others, ...ofServices]);
  return [
    ...gatewayProblems(gateways, pools, owned),
    ...nodelessProblems(gateways, objects.nodes),
    ...policyProblems({ policies, gateways, namespaces, pools, inside, invalid }),
  ];
}

/** The addresses of Nodes and pods, and the networks of pods and Services. */
function inCluster({ nodes, pods, insideNetworks }: ClusterObjects, config: EgressConfig): OwnedRange[] {
  return [...nodes.flatMap(nodeRanges), ...pods.flatMap(podRanges), ...networkRanges(insideNetworks, config)];
}
