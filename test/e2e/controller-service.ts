import type { TestCluster } from '../cluster/cluster.ts';
import { succeeds, until } from '../kernel/until.ts';

/** The name of the aggregated API, which controllers register. */
export const API_SERVICE = 'v1alpha1.controlplane.nodewall.io';

const SYSTEM = 'nodewall-system';

interface ApiService {
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

/**
 * The Service of deploy/, and controllers behind it: an API server with
 * `--enable-aggregator-routing` looks for the endpoints itself, without kube-proxy.
 */
export function controllerService(address: string, ports: readonly number[]): string {
  return `
apiVersion: v1
kind: Service
metadata: {name: nodewall-controller, namespace: ${SYSTEM}}
spec: {ports: [{name: https, port: 443}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: nodewall-controller, namespace: ${SYSTEM}, labels: {kubernetes.io/service-name: nodewall-controller}}
addressType: IPv4
endpoints: [{addresses: [${address}], conditions: {ready: true}}]
ports: [${ports.map((port) => `{name: https, port: ${port}, protocol: TCP}`).join(', ')}]
`;
}

/** Waits until the API server has reached a controller by the aggregated API. */
export async function untilAggregated(
  cluster: TestCluster,
  options: Parameters<typeof until>[2] = {},
): Promise<void> {
  const isAvailable = async (): Promise<boolean> => {
    if (!(await succeeds(cluster.get('apiservice', API_SERVICE)))) return false;
    const { status } = await cluster.get<ApiService>('apiservice', API_SERVICE);
    return status?.conditions?.some((one) => one.type === 'Available' && one.status === 'True') === true;
  };
  await until('the aggregated API is available', isAvailable, options);
}
