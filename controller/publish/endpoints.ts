import { API_SERVER, apiServerSlices, CLUSTER_DNS } from '../../apis/control-plane.ts';
import type { ClusterObjects, EndpointSlice } from '../../apis/objects.ts';
import type { Endpoints } from '../../apis/stream.ts';
import { firstAt } from '../../lib/sharing/lists.ts';

/**
 * The addresses of the API server as packets of a node have them: the cluster IPs of its Service,
 * and the endpoints behind it. By port, sorted. Objects must be sorted by namespace and name; the
 * cost is a search in each list, not a pass.
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

const DNS_PORT = 53;

/**
 * The cluster's DNS where its pods have another port than its Service, which is 53: where no
 * conntrack translates the Service's address (eBPF), packets of a node go to that port. The other
 * TCP ports of the Service are for metrics.
 */
export function clusterDnsEndpoints({ endpointSlices }: Pick<ClusterObjects, 'endpointSlices'>): Endpoints[] {
  const found = new Map<string, { readonly endpoints: Endpoints; readonly addresses: Set<string> }>();
  for (const { namespace, name: service } of CLUSTER_DNS) {
    for (const slice of inNamespace(endpointSlices, namespace)) {
      if (slice.service !== service) continue;
      for (const { protocol, port } of slice.ports) {
        const isDns = slice.ports.some((other) => other.protocol === 'UDP' && other.port === port);
        if (!isDns || port === DNS_PORT || protocol === 'SCTP') continue;
        const endpoints = {
          ...(protocol === 'UDP' ? { protocol: 'udp' as const } : {}),
          port,
          addresses: [],
        };
        const key = `${String(port).padStart(5, '0')} ${protocol}`;
        const there = found.get(key) ?? { endpoints, addresses: new Set<string>() };
        for (const address of slice.addresses) there.addresses.add(address);
        found.set(key, there);
      }
    }
  }
  return [...found]
    .filter(([, { addresses }]) => addresses.size > 0)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, { endpoints, addresses }]) => ({ ...endpoints, addresses: [...addresses].sort() }));
}

/**
 * Adds the API server's last known endpoints if none are listed: an API server that stops removes
 * its own, and the failsafe list must have their ports when it is back.
 */
export function lastKnownApiServer(): (objects: ClusterObjects) => ClusterObjects {
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
  const first = firstAt(0, list.length, (i) => (list[i]?.namespace ?? namespace) >= namespace);
  const found: T[] = [];
  for (let at = first; list[at]?.namespace === namespace; at++) found.push(list[at] as T);
  return found;
}
