import type { EgressConfig } from '../../../apis/egress/config.ts';
import type { EgressGateway, EgressPolicy } from '../../../apis/egress/objects.ts';
import type { ClusterObjects, Node, Service } from '../../../apis/objects.ts';
import type { CrossProblem } from '../../../apis/validate/objects.ts';
import { ALWAYS_INSIDE } from '../inside.ts';
import { gatewayProblems, poolsOf } from './gateways.ts';
import { policyProblems } from './policies.ts';
import { AddressUnion, type OwnedRange, ownedRange, RangeIndex } from './ranges.ts';

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
  const reserved = [...ALWAYS_INSIDE, ...config.inside].flatMap((text) => ownedRange(text, text));
  const inside = new AddressUnion([...others, ...pools, ...reserved]);
  const ofServices = objects.services.flatMap(serviceRanges);
  const owned = new RangeIndex([...others, ...ofServices]);
  return [
    ...gatewayProblems(gateways, pools, owned),
    ...policyProblems({ policies, gateways, namespaces, pools, inside, others: owned, invalid }),
  ];
}

/** The addresses of Nodes and pods, and the networks of pods and Services. */
function inCluster(
  { nodes, pods, insideNetworks }: ClusterObjects,
  { serviceCIDRs }: EgressConfig,
): OwnedRange[] {
  const hasServiceCidrs = insideNetworks.some(({ kind }) => kind === 'ServiceCIDR');
  const services = hasServiceCidrs ? [] : serviceCIDRs;
  return [
    ...nodes.flatMap(nodeRanges),
    ...pods.flatMap(({ namespace, name, addresses }) =>
      addresses.flatMap((text) => ownedRange(text, `the address of Pod ${namespace}/${name}`)),
    ),
    ...insideNetworks.flatMap(({ kind, name, cidrs }) =>
      cidrs.flatMap((text) => ownedRange(text, `${text} of ${kind} ${name}`)),
    ),
    ...services.flatMap((text) => ownedRange(text, `${text} of egress.serviceCIDRs`)),
  ];
}

function nodeRanges({ name, addresses, podCIDRs = [] }: Node): OwnedRange[] {
  return [
    ...addresses.flatMap((text) => ownedRange(text, `the address ${text} of Node ${name}`)),
    ...podCIDRs.flatMap((text) => ownedRange(text, `the pod network ${text} of Node ${name}`)),
  ];
}

function serviceRanges({ namespace, name, clusterIPs, externalAddresses = [] }: Service): OwnedRange[] {
  return [...clusterIPs, ...externalAddresses].flatMap((text) =>
    ownedRange(text, `the address ${text} of Service ${namespace}/${name}`),
  );
}
