import type { Address, AddressRange } from '../address.ts';
import { inRange, parseAddress, parseCidr } from '../address.ts';
import type { ClusterNode } from '../cluster.ts';
import { toCluster } from '../cluster.ts';
import type { Labels, Manifest, NodeManifest, PodManifest } from '../manifest.ts';
import { objectsOfKind } from '../manifest.ts';
import { namespaceLabels } from './egress-objects.ts';
import { isInAny } from './pool.ts';
import { spidernetNetworks } from './spidernet-objects.ts';

/** A pod that is not finished. */
export interface EgressPod {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Labels;
  readonly namespaceLabels: Labels;
  readonly isHost: boolean;
  readonly addresses: readonly Address[];
}

export interface EgressCluster {
  readonly nodes: readonly ClusterNode[];
  readonly pods: readonly EgressPod[];
  /** Of the Nodes, for their pods. */
  readonly podCIDRs: readonly AddressRange[];
  readonly labelsOfNamespace: (name: string) => Labels;
}

/** What the configuration says of egress gateways. */
export interface EgressConfig {
  readonly egress?: {
    readonly inside?: readonly string[];
    readonly serviceCIDRs?: readonly string[];
    readonly unknownPods?: string;
    readonly read?: readonly string[];
  };
}

export function toEgressCluster(objects: readonly object[]): EgressCluster {
  const labelsOfNamespace = namespaceLabels(objects);
  const nodes = objectsOfKind(objects, ['v1'], 'Node') as PodNetworkManifest[];
  const pods = objectsOfKind(objects, ['v1'], 'Pod') as PodManifest[];
  return {
    nodes: toCluster(objects).nodes,
    pods: pods.filter(isUnfinished).map((pod) => toPod(pod, labelsOfNamespace)),
    podCIDRs: nodes.flatMap(({ spec }) => spec?.podCIDRs ?? []).map(parseCidr),
    labelsOfNamespace,
  };
}

type PodNetworkManifest = NodeManifest & { spec?: { podCIDRs?: string[] } };

function isUnfinished({ status }: PodManifest): boolean {
  return status?.phase !== 'Succeeded' && status?.phase !== 'Failed';
}

function toPod(pod: PodManifest, labelsOfNamespace: (name: string) => Labels): EgressPod {
  const namespace = pod.metadata.namespace ?? 'default';
  const listed = (pod.status?.podIPs ?? []).map(({ ip }) => ip);
  const texts = listed.length > 0 ? listed : [pod.status?.podIP ?? ''];
  return {
    namespace,
    name: pod.metadata.name,
    labels: pod.metadata.labels ?? {},
    namespaceLabels: labelsOfNamespace(namespace),
    isHost: pod.spec?.hostNetwork === true,
    addresses: texts.map(parseAddress).filter((address) => address !== undefined),
  };
}

const ALWAYS_INSIDE = [
  ...['127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4'],
  ...['::1/128', 'fe80::/10', 'ff00::/8'],
].map(parseCidr);

type NetworkManifest = Manifest & { spec?: { cidrs?: string[]; cidr?: string } };

/** The test for destinations that are never steered (docs/egress.md). */
export function insideTest(
  objects: readonly object[],
  cluster: EgressCluster,
  pools: readonly AddressRange[],
  { egress = {} }: EgressConfig,
): (address: Address) => boolean {
  const kind = (versions: string[], name: string) =>
    objectsOfKind(objects, versions, name) as NetworkManifest[];
  const services = kind(['networking.k8s.io/v1', 'networking.k8s.io/v1beta1'], 'ServiceCIDR');
  const serviceCIDRs =
    services.length > 0 ? services.flatMap(({ spec }) => spec?.cidrs ?? []) : (egress.serviceCIDRs ?? []);
  const ipPools = kind(['crd.projectcalico.org/v1', 'projectcalico.org/v3'], 'IPPool');
  const poolCIDRs = ipPools.flatMap(({ spec }) => (spec?.cidr === undefined ? [] : [spec.cidr]));
  const ranges = [
    ...ALWAYS_INSIDE,
    ...cluster.podCIDRs,
    ...[...serviceCIDRs, ...poolCIDRs, ...(egress.inside ?? []), ...spidernetNetworks(objects)].map(
      parseCidr,
    ),
    ...pools,
  ];
  const addresses = [...cluster.nodes, ...cluster.pods].flatMap((one) => one.addresses);
  const single = addresses.map((address) => ({ ...address, first: address.value, last: address.value }));
  return (address) => isInAny(ranges, address) || single.some((range) => inRange(range, address));
}

/** Whose packet a flow is. */
export type Source =
  | { readonly kind: 'host' }
  /** In a Node's pod network, of no pod. */
  | { readonly kind: 'unknown'; readonly address: Address }
  | { readonly kind: 'pod'; readonly pod: EgressPod }
  | { readonly kind: 'other'; readonly address: Address };

export interface EgressFlow {
  readonly traffic: 'Egress';
  /** `namespace/name`; else `src`. */
  readonly pod?: string;
  readonly src?: string;
  readonly dst: string;
}

/** Throws where the flow names no pod of the cluster. */
export function sourceOf({ pod: named, src }: EgressFlow, cluster: EgressCluster): Source {
  if (named !== undefined) {
    const pod = cluster.pods.find(({ namespace, name }) => `${namespace}/${name}` === named);
    if (pod === undefined) throw new Error(`no running pod ${named}`);
    return pod.isHost ? { kind: 'host' } : { kind: 'pod', pod };
  }
  const address = parseAddress(src ?? '');
  if (address === undefined) throw new Error(`src is not an address: ${src}`);
  const has = (one: { addresses: readonly Address[] }) =>
    one.addresses.some(({ family, value }) => family === address.family && value === address.value);
  const pod = cluster.pods.find((one) => !one.isHost && has(one));
  if (pod !== undefined) return { kind: 'pod', pod };
  if (cluster.nodes.some(has)) return { kind: 'host' };
  return { kind: isInAny(cluster.podCIDRs, address) ? 'unknown' : 'other', address };
}
