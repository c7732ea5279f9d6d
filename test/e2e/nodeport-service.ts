export interface NodePortService {
  readonly clusterIP: string;
  readonly port: number;
  readonly nodePort: number;
  /** The one endpoint. */
  readonly backend: string;
}

/**
 * The Service `default/hello`, TCP over IPv4, with the EndpointSlice that no controller makes here.
 */
export function nodePortService({ clusterIP, port, nodePort, backend }: NodePortService): object[] {
  const ports = [{ name: 'tcp', protocol: 'TCP', port }];
  const metadata = { name: 'hello', namespace: 'default' };
  return [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata,
      spec: { type: 'NodePort', clusterIP, ports: ports.map((one) => ({ ...one, nodePort })) },
    },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { ...metadata, labels: { 'kubernetes.io/service-name': 'hello' } },
      addressType: 'IPv4',
      ports,
      endpoints: [{ addresses: [backend], conditions: { ready: true } }],
    },
  ];
}
