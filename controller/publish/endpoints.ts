import type { ClusterObjects, EndpointSlice, Labels, Pod } from '../../apis/objects.ts';
import type { Endpoints } from '../../apis/stream.ts';

export interface EndpointsOptions {
  /** The controller's Service. */
  readonly namespace: string;
  readonly service: string;
  /** What every replica of the controller listens on. */
  readonly port: number;
}

/**
 * Where the API server and the controllers are, as a node's packets have it: the Service `kubernetes` by its cluster IPs and behind them, and every pod that
 * the controller's Service selects, ready or not, since one that isn't may lead next. By port, sorted. Objects must be sorted by namespace and name;
 * the cost is a search in each list, not a walk.
 */
export function controlPlaneEndpoints(objects: ClusterObjects, options: EndpointsOptions): Endpoints[] {
  const byPort = new Map<number, Set<string>>();
  const add = (addresses: readonly string[], port: number): void => {
    const there = byPort.get(port) ?? new Set();
    byPort.set(port, there);
    for (const address of addresses) there.add(address);
  };
  const addEach = (addresses: readonly string[], ports: EndpointSlice['ports']): void => {
    for (const { protocol, port } of ports) if (protocol === 'TCP') add(addresses, port);
  };
  const { namespace, service: name, port } = options;
  for (const service of inNamespace(objects.services, 'default')) {
    if (service.name === 'kubernetes') addEach(service.clusterIPs, service.ports);
  }
  for (const slice of inNamespace(objects.endpointSlices, 'default')) {
    if (slice.service === 'kubernetes') addEach(slice.addresses, slice.ports);
  }
  const selector = inNamespace(objects.services, namespace).find(
    (service) => service.name === name,
  )?.selector;
  // Port 0 is any: where it listens is not known ahead.
  for (const pod of selector && port > 0 ? inNamespace(objects.pods, namespace) : []) {
    if (selector && isSelected(pod, selector)) add(pod.addresses, port);
  }
  return [...byPort]
    .filter(([, addresses]) => addresses.size > 0)
    .sort(([a], [b]) => a - b)
    .map(([at, addresses]) => ({ port: at, addresses: [...addresses].sort() }));
}

function isSelected({ labels }: Pod, selector: Labels): boolean {
  return Object.entries(selector).every(([key, value]) => labels[key] === value);
}

function inNamespace<T extends { readonly namespace: string }>(list: readonly T[], namespace: string): T[] {
  const first = firstAt(list, (one) => one.namespace >= namespace);
  const found: T[] = [];
  for (let at = first; list[at]?.namespace === namespace; at++) found.push(list[at] as T);
  return found;
}

/** Index of the first of which it is so; of all after it, it is too. */
function firstAt<T>(list: readonly T[], isSo: (one: T) => boolean): number {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isSo(list[middle] as T)) high = middle;
    else low = middle + 1;
  }
  return low;
}
