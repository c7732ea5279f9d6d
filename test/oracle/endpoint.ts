import type { Address } from './address.ts';
import { addressKey, parseAddress } from './address.ts';
import type { Packet } from './flow.ts';
import type { EndpointSliceManifest, Labels, ServiceManifest, ServiceReference } from './manifest.ts';
import { assertOnlyFields, objectsOfKind } from './manifest.ts';
import { transportNumber } from './service.ts';

/** One exact destination of a Service. */
export interface Endpoint {
  address: Address;
  /** IP protocol number. */
  protocol: number;
  port: number;
}

/** A Service with all that `toServices` stands for. */
export interface ClusterService {
  name: string;
  namespace: string;
  selector: Labels | undefined;
  endpoints: Endpoint[];
  clusterIPs: Address[];
}

/** A pod that is not finished, also one with hostNetwork. */
interface RunningPod {
  namespace: string;
  addresses: Address[];
}

/**
 * Every Service: its cluster IPs with its ports, and slice by slice the ready endpoints with that
 * slice's ports, as far as a pod of the namespace has their address. `withoutPods` are the Services
 * that the configuration exempts.
 */
export function toClusterServices(
  objects: readonly object[],
  pods: readonly RunningPod[],
  withoutPods: readonly string[] = [],
): ClusterService[] {
  const services = objectsOfKind(objects, ['v1'], 'Service') as ServiceManifest[];
  const slices = objectsOfKind(objects, ['discovery.k8s.io/v1'], 'EndpointSlice') as EndpointSliceManifest[];
  return services.map((service) => {
    const { name, namespace = 'default' } = service.metadata;
    const isOwn = ({ metadata }: EndpointSliceManifest) =>
      (metadata.namespace ?? 'default') === namespace &&
      metadata.labels?.['kubernetes.io/service-name'] === name;
    const trusted = ['default/kubernetes', ...withoutPods].includes(`${namespace}/${name}`);
    const ofPods = new Set(
      pods.filter((pod) => pod.namespace === namespace).flatMap((pod) => pod.addresses.map(addressKey)),
    );
    const counting = slices
      .filter(isOwn)
      .flatMap(ofSlice)
      .filter(({ address }) => trusted || ofPods.has(addressKey(address)));
    const endpoints = [...ofClusterIPs(service), ...counting];
    const clusterIPs = clusterIPsOf(service).flatMap((text) => parseAddress(text) ?? []);
    return { name, namespace, selector: service.spec?.selector, endpoints, clusterIPs };
  });
}

/** The TCP ports of the API server, as far as endpoints of its Service say them. */
export function toApiServerPorts(objects: readonly object[]): number[] {
  const slices = objectsOfKind(objects, ['discovery.k8s.io/v1'], 'EndpointSlice') as EndpointSliceManifest[];
  const isOfApiServer = ({ metadata }: EndpointSliceManifest) =>
    (metadata.namespace ?? 'default') === 'default' &&
    metadata.labels?.['kubernetes.io/service-name'] === 'kubernetes';
  const endpoints = slices.filter(isOfApiServer).flatMap(ofSlice);
  return endpoints.filter(({ protocol }) => protocol === transportNumber('TCP')).map(({ port }) => port);
}

/** The test for a rule's `toServices`; an unknown Service matches nothing. */
export function toServicesTest(
  references: ServiceReference[],
  services: ClusterService[],
): (packet: Packet) => boolean {
  for (const reference of references) assertOnlyFields(reference, ['name', 'namespace'], 'toServices[]');
  const isNamed = ({ name, namespace }: ClusterService) =>
    references.some((reference) => reference.name === name && reference.namespace === namespace);
  const keys = new Set(services.filter(isNamed).flatMap(({ endpoints }) => endpoints.map(endpointKey)));
  return ({ dst, protocol, dstPort }) =>
    dst !== undefined &&
    protocol !== undefined &&
    dstPort !== undefined &&
    keys.has(endpointKey({ address: dst, protocol, port: dstPort }));
}

function endpointKey({ address, protocol, port }: Endpoint): string {
  return `${addressKey(address)} ${protocol} ${port}`;
}

function ofClusterIPs(service: ServiceManifest): Endpoint[] {
  return product(clusterIPsOf(service), service.spec?.ports ?? []);
}

function clusterIPsOf({ spec = {} }: ServiceManifest): string[] {
  const listed = spec.clusterIPs ?? [];
  return listed.length > 0 ? listed : [spec.clusterIP ?? ''];
}

function ofSlice({ endpoints = [], ports = [] }: EndpointSliceManifest): Endpoint[] {
  const ready = endpoints.filter(({ conditions }) => conditions?.ready !== false);
  return product(
    ready.flatMap(({ addresses }) => addresses),
    ports,
  );
}

/**
 * Every address with every port. `None` and names are no addresses; a port without a number is
 * none.
 */
function product(texts: string[], ports: { protocol?: string; port?: number | null }[]): Endpoint[] {
  const addresses = texts.map(parseAddress).filter((address) => address !== undefined);
  return addresses.flatMap((address) =>
    ports.flatMap(({ protocol, port }) =>
      typeof port === 'number' ? [{ address, protocol: transportNumber(protocol), port }] : [],
    ),
  );
}
