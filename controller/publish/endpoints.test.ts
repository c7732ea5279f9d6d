import assert from 'node:assert/strict';
import { type ClusterObjects, NO_OBJECTS, type Pod, type Service } from '../../apis/objects.ts';
import { controlPlaneEndpoints } from './endpoints.ts';

const OPTIONS = { namespace: 'nodewall-system', service: 'nodewall-controller', port: 8443 };

const pod = (namespace: string, name: string, app: string, ...addresses: string[]): Pod => ({
  kind: 'Pod',
  namespace,
  name,
  labels: { app },
  serviceAccount: 'default',
  addresses,
});
const service = (namespace: string, name: string, fields: Partial<Service>): Service => ({
  kind: 'Service',
  namespace,
  name,
  selector: null,
  clusterIPs: [],
  ports: [],
  ...fields,
});
const slice = (name: string, of: string, addresses: string[], port: number) =>
  ({
    kind: 'EndpointSlice',
    namespace: 'default',
    name,
    service: of,
    addresses,
    ports: [{ protocol: 'TCP', port }],
  }) as const;

const OBJECTS: ClusterObjects = {
  ...NO_OBJECTS,
  pods: [
    pod('default', 'a', 'controller', '10.1.0.1'),
    pod('nodewall-system', 'agent', 'agent', '192.0.2.1'),
    pod('nodewall-system', 'c1', 'controller', '10.1.0.3', 'fd00::3'),
    pod('nodewall-system', 'c2', 'controller', '10.1.0.2'),
    pod('nodewall-system', 'c3', 'controller'),
    pod('other', 'c', 'controller', '10.1.0.9'),
  ],
  services: [
    service('default', 'kubernetes', { clusterIPs: ['10.96.0.1'], ports: [{ protocol: 'TCP', port: 443 }] }),
    service('nodewall-system', 'nodewall-controller', { selector: { app: 'controller' } }),
    service('other', 'kubernetes', { clusterIPs: ['10.96.0.9'], ports: [{ protocol: 'TCP', port: 443 }] }),
  ],
  endpointSlices: [
    slice('kubernetes', 'kubernetes', ['192.0.2.12', '192.0.2.11'], 6443),
    slice('web', 'web', ['10.1.0.7'], 80),
  ],
};

describe('the endpoints of the control plane', () => {
  it('are the API servers by cluster IP and behind it, and every controller, by port', () => {
    assert.deepEqual(controlPlaneEndpoints(OBJECTS, OPTIONS), [
      { port: 443, addresses: ['10.96.0.1'] },
      { port: 6443, addresses: ['192.0.2.11', '192.0.2.12'] },
      { port: 8443, addresses: ['10.1.0.2', '10.1.0.3', 'fd00::3'] },
    ]);
  });

  it('are none where the cluster has no such Services', () => {
    assert.deepEqual(controlPlaneEndpoints({ ...OBJECTS, services: [], endpointSlices: [] }, OPTIONS), []);
    const headless = { ...OBJECTS, services: OBJECTS.services.map((one) => ({ ...one, selector: null })) };
    assert.equal(
      controlPlaneEndpoints(headless, OPTIONS).some(({ port }) => port === 8443),
      false,
    );
  });
});
