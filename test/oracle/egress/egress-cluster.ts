import { type Address, type AddressRange, inRange, parseAddress, parseCidr } from '../address.ts';
import { type ClusterNode, toCluster } from '../cluster.ts';
import {
  type Labels,
  type Manifest,
  type NodeManifest,
  objectsOfKind,
  type PodManifest,
} from '../manifest.ts';
import { isInAny, namespaceLabels } from './egress-objects.ts';
import { spidernetNetworks } from './spidernet-objects.ts';

/** A pod that is not finished. */
export interface EgressPod {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Labels;
  readonly namespaceLabels: Labels;
  readonly isHost: boolean;
  readonly addresses: readonly Address[];
  /** The pod networks of its Node that count. */
  readonly home: readonly AddressRange[];
}

export interface EgressCluster {
  readonly nodes: readonly ClusterNode[];
  readonly pods: readonly EgressPod[];
  /** Those of the Nodes that count. */
  readonly podCIDRs: readonly AddressRange[];
  /** Networks that configuration and objects name: inside, whatever Nodes and pods say. */
  readonly named: readonly AddressRange[];
  /** Where what Nodes and pods say counts. */
  readonly credible: readonly AddressRange[];
  /** An unknown source there is a pod's, unless a policy has it in its podSubnets. */
  readonly likelyPods: readonly AddressRange[];
  readonly labelsOfNamespace: (name: string) => Labels;
}

/** What the configuration says of egress gateways. */
export interface EgressConfig {
  readonly egress?: {
    readonly inside?: readonly string[];
    readonly serviceCIDRs?: readonly string[];
    readonly podCIDRs?: readonly string[];
    readonly unknownPods?: string;
  };
}

export function toEgressCluster(objects: readonly object[], config: EgressConfig): EgressCluster {
  const labelsOfNamespace = namespaceLabels(objects);
  const nodes = objectsOfKind(objects, ['v1'], 'Node') as PodNetworkManifest[];
  const pods = objectsOfKind(objects, ['v1'], 'Pod') as ScheduledPodManifest[];
  const named = namedNetworks(objects, config);
  const podCIDRs = (config.egress?.podCIDRs ?? []).map(parseCidr);
  const credible = [...named, ...(podCIDRs.length === 0 ? PRIVATE : [])];
  const homes = new Map(
    nodes.map(({ metadata, spec }) => {
      const own = (spec?.podCIDRs ?? []).map(parseCidr);
      return [metadata.name, own.filter((range) => isWithin(range, credible))] as const;
    }),
  );
  const ofNodes = [...homes.values()].flat();
  const likely = [...podCIDRs, ...poolNetworks(objects).map(parseCidr)];
  return {
    nodes: toCluster(objects).nodes,
    pods: pods
      .filter(isUnfinished)
      .map((pod) => toPod(pod, labelsOfNamespace, homes.get(pod.spec?.nodeName ?? '') ?? [])),
    podCIDRs: ofNodes,
    likelyPods: likely.length > 0 || ofNodes.length > 0 ? likely : PRIVATE,
    named,
    credible,
    labelsOfNamespace,
  };
}

/** Whether the ranges together have every address of the range. */
function isWithin({ family, first, last }: AddressRange, ranges: readonly AddressRange[]): boolean {
  let next = first;
  for (;;) {
    const found = ranges.find((range) => inRange(range, { family, value: next }));
    if (found === undefined) return false;
    if (found.last >= last) return true;
    next = found.last + 1n;
  }
}

type PodNetworkManifest = NodeManifest & { spec?: { podCIDRs?: string[] } };
type ScheduledPodManifest = PodManifest & { spec?: { nodeName?: string } };

function isUnfinished({ status }: PodManifest): boolean {
  return status?.phase !== 'Succeeded' && status?.phase !== 'Failed';
}

function toPod(
  pod: PodManifest,
  labelsOfNamespace: (name: string) => Labels,
  home: readonly AddressRange[],
): EgressPod {
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
    home,
  };
}

const ALWAYS_INSIDE = [
  ...['127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', '255.255.255.255/32'],
  ...['::1/128', 'fe80::/10', 'ff00::/8'],
].map(parseCidr);

/** Addresses that nothing on the Internet has. */
const PRIVATE = ['10.0.0.0/8', '100.64.0.0/10', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'].map(parseCidr);

type NetworkManifest = Manifest & { spec?: { cidrs?: string[]; cidr?: string } };

/** The networks that configuration and objects name. */
function namedNetworks(objects: readonly object[], { egress = {} }: EgressConfig): AddressRange[] {
  const kind = (versions: string[], name: string) =>
    objectsOfKind(objects, versions, name) as NetworkManifest[];
  const services = kind(['networking.k8s.io/v1', 'networking.k8s.io/v1beta1'], 'ServiceCIDR');
  const serviceCIDRs =
    services.length > 0 ? services.flatMap(({ spec }) => spec?.cidrs ?? []) : (egress.serviceCIDRs ?? []);
  const written = [
    ...serviceCIDRs,
    ...poolNetworks(objects),
    ...(egress.inside ?? []),
    ...(egress.podCIDRs ?? []),
  ];
  return [...ALWAYS_INSIDE, ...[...written, ...spidernetNetworks(objects)].map(parseCidr)];
}

function poolNetworks(objects: readonly object[]): string[] {
  const versions = ['crd.projectcalico.org/v1', 'projectcalico.org/v3'];
  const pools = objectsOfKind(objects, versions, 'IPPool') as NetworkManifest[];
  return pools.flatMap(({ spec }) => (spec?.cidr === undefined ? [] : [spec.cidr]));
}

/** The test for destinations that are never steered (docs/egress.md). */
export function insideTest(
  { named, credible, podCIDRs, nodes, pods }: EgressCluster,
  pools: readonly AddressRange[],
): (address: Address) => boolean {
  const ofPods = pods.flatMap(({ addresses }) => addresses).filter((address) => isInAny(credible, address));
  const single = [...nodes.flatMap(({ addresses }) => addresses), ...ofPods];
  const ranges = [
    ...[...named, ...podCIDRs, ...pools],
    ...single.map((address) => ({ ...address, first: address.value, last: address.value })),
  ];
  return (address) => isInAny(ranges, address);
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
  const holders = cluster.pods.filter((one) => !one.isHost && has(one));
  const pod = holders.find(({ home }) => isInAny(home, address)) ?? holders[0];
  if (pod !== undefined) return { kind: 'pod', pod };
  if (cluster.nodes.some(has)) return { kind: 'host' };
  return { kind: isInAny(cluster.podCIDRs, address) ? 'unknown' : 'other', address };
}
