import type { EndpointSlice, NamespacedName } from './objects.ts';

/**
 * The ServiceAccount of nodewall's controllers: the failsafe list's `controllers` are its pods.
 * Their Service and Lease have that name, too.
 */
export const CONTROLLER_ACCOUNT: NamespacedName = {
  namespace: 'nodewall-system',
  name: 'nodewall-controller',
};

/** The Service of the API server. */
export const API_SERVER: NamespacedName = { namespace: 'default', name: 'kubernetes' };

/** The EndpointSlices of the API server that hold an endpoint. */
export function apiServerSlices(slices: readonly EndpointSlice[]): EndpointSlice[] {
  return slices.filter(
    ({ namespace, service, addresses }) =>
      service === API_SERVER.name && namespace === API_SERVER.namespace && addresses.length > 0,
  );
}
