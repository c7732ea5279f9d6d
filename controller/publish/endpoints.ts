import { API_SERVER, apiServerSlices } from '../../apis/control-plane.ts';
import type { ClusterObjects, EndpointSlice } from '../../apis/objects.ts';
import type { Endpoints } from '../../apis/stream.ts';

/**
 * Where the API server is, as a node's packets have it: its Service by the cluster IPs, and what is
 * behind it. By port, sorted. Objects must be sorted by namespace and name; the cost is a search in
 * each list, not a walk.
 */
export function apiServerEndpoints({ services, endpointSlices }: ClusterObjects): Endpoints[] {
  const byPort = new Map<number, Set<string>>();
  const add = (addresses: readonly string[], ports: EndpointSlice['ports']): void => {
    for (const { protocol, port } of ports) {
      if (protocol !== 'TCP') continue;
      const there = byPort.get(port) ?? new Set();
      byPort.set(port, there);
      for (const address of addresses) there.add(address);
    }
  };
  for (const { name, clusterIPs, ports } of inNamespace(services, API_SERVER.namespace)) {
    if (name === API_SERVER.name) add(clusterIPs, ports);
  }
  for (const slice of apiServerSlices(inNamespace(endpointSlices, API_SERVER.namespace))) {
    add(slice.addresses, slice.ports);
  }
  return [...byPort]
    .filter(([, addresses]) => addresses.size > 0)
    .sort(([a], [b]) => a - b)
    .map(([port, addresses]) => ({ port, addresses: [...addresses].sort() }));
}

/**
 * The objects, with the API server's last endpoints where none is listed: an API server that ends
 * takes its own away, and the failsafe list must know its ports still when it is back.
 */
export function apiServerMemory(): (objects: ClusterObjects) => ClusterObjects {
  let last: readonly EndpointSlice[] = [];
  return (objects) => {
    const { endpointSlices } = objects;
    const now = apiServerSlices(inNamespace(endpointSlices, API_SERVER.namespace));
    if (now.length > 0) last = now;
    if (now.length > 0 || last.length === 0) return objects;
    const names = new Set(last.map(({ name }) => name));
    const others = endpointSlices.filter(
      ({ namespace, name }) => namespace !== API_SERVER.namespace || !names.has(name),
    );
    return { ...objects, endpointSlices: [...others, ...last].sort(byPlace) };
  };
}

function byPlace(a: EndpointSlice, b: EndpointSlice): number {
  if (a.namespace !== b.namespace) return a.namespace < b.namespace ? -1 : 1;
  return a.name < b.name ? -1 : 1;
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
