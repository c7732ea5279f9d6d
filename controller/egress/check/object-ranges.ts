import type { EgressConfig } from '../../../apis/egress/config.ts';
import type { InsideNetworks } from '../../../apis/egress/objects.ts';
import type { Node, Service } from '../../../apis/objects.ts';
import { type OwnedRange, ownedRange } from '../../../lib/net/range-index.ts';
import type { AddressedPod } from '../../extension/extension.ts';
import { ALWAYS_INSIDE, credible } from '../inside.ts';

export function nodeRanges({ name, addresses, podCIDRs = [] }: Node): OwnedRange[] {
  return [
    ...addresses.flatMap((text) => ownedRange(text, `the address ${text} of Node ${name}`)),
    ...podCIDRs.flatMap((text) => ownedRange(text, `the pod network ${text} of Node ${name}`)),
  ];
}

export function podRanges({ namespace, name, addresses }: AddressedPod): OwnedRange[] {
  return addresses.flatMap((text) => ownedRange(text, `the address of Pod ${namespace}/${name}`));
}

/** Networks that Nodes and pods say, and that count as inside. */
export function insideRanges(
  {
    nodes,
    pods,
    insideNetworks,
  }: {
    readonly nodes: readonly Node[];
    readonly pods: readonly AddressedPod[];
    readonly insideNetworks: readonly InsideNetworks[];
  },
  config: EgressConfig,
): OwnedRange[] {
  const isCredible = credible(insideNetworks, config);
  return [
    ...nodes.flatMap((node) => nodeRanges({ ...node, podCIDRs: [] })),
    ...nodes.flatMap((node) => nodeRanges({ ...node, addresses: [] })).filter(isCredible),
    ...pods.flatMap(podRanges).filter(isCredible),
  ];
}

export function serviceRanges({
  namespace,
  name,
  clusterIPs,
  externalAddresses = [],
}: Service): OwnedRange[] {
  return [...clusterIPs, ...externalAddresses].flatMap((text) =>
    ownedRange(text, `the address ${text} of Service ${namespace}/${name}`),
  );
}

/** Networks of pods and Services; the configured ones of Services where the API has none. */
export function networkRanges(
  networks: readonly InsideNetworks[],
  { serviceCIDRs }: EgressConfig,
): OwnedRange[] {
  const isInApi = networks.some(({ kind }) => kind === 'ServiceCIDR');
  return [
    ...networks.flatMap(({ kind, name, cidrs }) =>
      cidrs.flatMap((text) => ownedRange(text, `${text} of ${kind} ${name}`)),
    ),
    ...(isInApi ? [] : serviceCIDRs).flatMap((text) => ownedRange(text, `${text} of egress.serviceCIDRs`)),
  ];
}

/** Destinations that are inside the cluster though nothing there has them. */
export function reservedRanges({ inside, podCIDRs }: EgressConfig): OwnedRange[] {
  return [...ALWAYS_INSIDE, ...inside, ...podCIDRs].flatMap((text) => ownedRange(text, text));
}
