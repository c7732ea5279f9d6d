import type { EndpointSlice, NamespacedName } from './objects.ts';

/**
 * The ServiceAccount of nodewall's controllers; its pods are `controllers` in the failsafe list.
 * The controllers' Service and Lease have the same name.
 */
export const CONTROLLER_ACCOUNT: NamespacedName = {
  namespace: 'nodewall-system',
  name: 'nodewall-controller',
};

/** The port at which controllers serve agents and each other, in pods and by default. */
export const CONTROLLER_PORT = 8443;
/** The port at which they serve admission webhooks to API servers, likewise. */
export const WEBHOOK_PORT = 9443;

/** Services of the cluster's DNS, of most distributions and of OpenShift. */
export const CLUSTER_DNS: readonly NamespacedName[] = [
  { namespace: 'kube-system', name: 'kube-dns' },
  { namespace: 'openshift-dns', name: 'dns-default' },
];

/** Services that the manifest of NodeLocal DNSCache makes. */
export const NODE_LOCAL_DNS = {
  namespace: 'kube-system',
  names: ['kube-dns-upstream', 'node-local-dns'] as readonly string[],
};

/** The Service of the API server. */
export const API_SERVER: NamespacedName = { namespace: 'default', name: 'kubernetes' };

/** The EndpointSlices of the API server that have at least one address. */
export function apiServerSlices(slices: readonly EndpointSlice[]): EndpointSlice[] {
  return slices.filter(
    ({ namespace, service, addresses }) =>
      service === API_SERVER.name && namespace === API_SERVER.namespace && addresses.length > 0,
  );
}

/** The TCP ports of the API server's endpoints, in order. */
export function apiServerPorts(slices: readonly EndpointSlice[]): number[] {
  const ports = apiServerSlices(slices).flatMap((slice) => slice.ports);
  const tcp = new Set(ports.flatMap(({ protocol, port }) => (protocol === 'TCP' ? port : [])));
  return [...tcp].sort((a, b) => a - b);
}
