import type { EgressConfig } from '../../apis/egress/config.ts';
import type { InsideNetworks } from '../../apis/egress/objects.ts';
import { PRIVATE_NETWORKS } from '../../lib/net/address.ts';
import { AddressUnion, type OwnedRange, ownedRange } from './check/ranges.ts';

/** Loopback, link-local, multicast and broadcast. */
export const ALWAYS_INSIDE = [
  '127.0.0.0/8',
  '169.254.0.0/16',
  '224.0.0.0/4',
  '255.255.255.255/32',
  '::1/128',
  'fe80::/10',
  'ff00::/8',
];

/** The part of the configuration that names the cluster's networks. */
export type NetworksConfig = Pick<EgressConfig, 'inside' | 'serviceCIDRs' | 'podCIDRs'> & {
  /** Networks of Nodes; absent: none are named. */
  readonly nodeCIDRs?: readonly string[];
};

/** The networks that are inside whatever Nodes and pods say: not theirs, and not pools. */
export function namedNetworks(
  networks: readonly InsideNetworks[],
  { inside, serviceCIDRs, podCIDRs }: NetworksConfig,
): string[] {
  const services = networks.some(({ kind }) => kind === 'ServiceCIDR') ? [] : serviceCIDRs;
  return [...ALWAYS_INSIDE, ...inside, ...podCIDRs, ...services, ...networks.flatMap(({ cidrs }) => cidrs)];
}

/**
 * Where an address is a pod's, for all that Nodes do not say: the pod networks of the configuration
 * and of IP pools; where `nodesSay` nothing either, private addresses.
 */
export function likelyPodNetworks(
  networks: readonly InsideNetworks[],
  { podCIDRs }: NetworksConfig,
  nodesSay: boolean,
): readonly string[] {
  const named = [...podCIDRs, ...networks.flatMap(({ kind, cidrs }) => (kind === 'IPPool' ? cidrs : []))];
  return named.length > 0 || nodesSay ? named : PRIVATE_NETWORKS;
}

/**
 * Whether what a Node or a pod says of itself (podCIDRs, pods' and reported addresses) counts as
 * inside: a kubelet must not take a destination on the Internet out of all policies.
 */
export function credible(
  networks: readonly InsideNetworks[],
  config: NetworksConfig,
): (said: Pick<OwnedRange, 'family' | 'range'>) => boolean {
  const cidrs = [
    ...namedNetworks(networks, config),
    ...(config.nodeCIDRs ?? []),
    ...(config.podCIDRs.length === 0 ? PRIVATE_NETWORKS : []),
  ];
  const union = new AddressUnion(cidrs.flatMap((text) => ownedRange(text, text)));
  return ({ family, range }) => union.covers(family, range);
}
