import { type Address, addressKey, inRange, parseAddress, parseCidr } from './address.ts';
import { type ClusterService, toApiServerPorts, toClusterServices } from './endpoint.ts';
import type { OracleConfig } from './flow.ts';
import { type Labels, type NodeManifest, objectsOfKind, type PodManifest } from './manifest.ts';

/** A Node with the addresses that nodeSelector stands for. */
export interface ClusterNode {
  name: string;
  labels: Labels;
  addresses: Address[];
  /** Its annotation `nodewall.io/platform`; empty if it has none. */
  platform: string;
}

/** A pod that peers can select: neither hostNetwork nor finished. */
export interface ClusterPod {
  labels: Labels;
  namespace: string;
  namespaceLabels: Labels;
  serviceAccount: string;
  addresses: Address[];
  /** Name of its Node; undefined before it has one. */
  node: string | undefined;
}

/** What peers are resolved against. */
export interface Cluster {
  nodes: ClusterNode[];
  pods: ClusterPod[];
  /** The pods of nodewall's controllers, hostNetwork ones included. */
  controllers: ClusterPod[];
  services: ClusterService[];
  /** TCP ports of the ready endpoints of Service default/kubernetes. */
  apiServerPorts: number[];
}

/** Reads Nodes, Namespaces, Pods, Services and EndpointSlices out of the objects. */
export function toCluster(objects: readonly object[], config: OracleConfig = {}): Cluster {
  const namespaces = new Map<string, Labels>();
  for (const namespace of objectsOfKind(objects, ['v1'], 'Namespace')) {
    namespaces.set(namespace.metadata.name, namespace.metadata.labels ?? {});
  }
  const nodes = objectsOfKind(objects, ['v1'], 'Node') as NodeManifest[];
  const pods = objectsOfKind(objects, ['v1'], 'Pod') as PodManifest[];
  const running = pods.filter(isUnfinished);
  const toPod = (pod: PodManifest) => toClusterPod(pod, namespaces);
  const own = running.filter(({ spec }) => spec?.hostNetwork !== true).map(toPod);
  const services = toClusterServices(objects, running.map(toPod), config.endpointsWithoutPods);
  const isOfAnother = toOtherTest(nodes, own, services);
  return {
    nodes: nodes.map((node) => {
      const found = toClusterNode(node);
      return { ...found, addresses: found.addresses.filter((one) => !isOfAnother(one, found.name)) };
    }),
    pods: own,
    controllers: running.map(toPod).filter(isController),
    services,
    apiServerPorts: toApiServerPorts(objects),
  };
}

/** The widest networks of pods that count, in bits. */
const widest = { 4: 16, 6: 40 };

/**
 * Builds the test for addresses of a Node that are those of something else: of a Service, of
 * another Node's network of pods, or of a pod, if some network of pods has it or there is none.
 */
function toOtherTest(
  nodes: NodeManifest[],
  pods: ClusterPod[],
  services: ClusterService[],
): (address: Address, node: string) => boolean {
  const networks = nodes.flatMap(({ metadata, spec }) =>
    (spec?.podCIDRs ?? [])
      .map((text) => ({ node: metadata.name, length: Number(text.split('/')[1]), range: parseCidr(text) }))
      .filter(({ length, range }) => length >= widest[range.family]),
  );
  const ofPods = new Set(pods.flatMap(({ addresses }) => addresses.map(addressKey)));
  const ofServices = new Set(services.flatMap(({ clusterIPs }) => clusterIPs.map(addressKey)));
  return (address, node) => {
    const having = networks.filter(({ range }) => inRange(range, address));
    const isPods = ofPods.has(addressKey(address)) && (networks.length === 0 || having.length > 0);
    return isPods || ofServices.has(addressKey(address)) || having.some((one) => one.node !== node);
  };
}

function toClusterNode(node: NodeManifest): ClusterNode {
  const reported = (node.status?.addresses ?? [])
    .filter(({ type }) => type === 'InternalIP' || type === 'ExternalIP')
    .map(({ address }) => address);
  const annotated = (node.metadata.annotations?.['nodewall.io/addresses'] ?? '')
    .split(',')
    .map((item) => item.trim());
  return {
    name: node.metadata.name,
    labels: node.metadata.labels ?? {},
    addresses: readable([...reported, ...annotated]),
    platform: node.metadata.annotations?.['nodewall.io/platform'] ?? '',
  };
}

function isUnfinished({ status }: PodManifest): boolean {
  return status?.phase !== 'Succeeded' && status?.phase !== 'Failed';
}

function isController({ namespace, serviceAccount }: ClusterPod): boolean {
  return namespace === 'nodewall-system' && serviceAccount === 'nodewall-controller';
}

function toClusterPod(pod: PodManifest, namespaces: Map<string, Labels>): ClusterPod {
  const namespace = pod.metadata.namespace ?? 'default';
  const listed = (pod.status?.podIPs ?? []).map(({ ip }) => ip);
  const addresses = listed.length > 0 ? listed : [pod.status?.podIP ?? ''];
  return {
    labels: pod.metadata.labels ?? {},
    namespace,
    namespaceLabels: { ...namespaces.get(namespace), 'kubernetes.io/metadata.name': namespace },
    serviceAccount: pod.spec?.serviceAccountName || 'default',
    addresses: readable(addresses),
    node: pod.spec?.nodeName,
  };
}

function readable(texts: string[]): Address[] {
  return texts.map(parseAddress).filter((address) => address !== undefined);
}
