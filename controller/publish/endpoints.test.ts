import assert from 'node:assert/strict';
import { type ClusterObjects, NO_OBJECTS, type Service } from '../../apis/objects.ts';
import { apiServerEndpoints, clusterDnsEndpoints, lastKnownApiServer } from './endpoints.ts';

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

describe('the endpoints of the API server', () => {
  it('are the cluster IP of its Service and the endpoints, by port', () => {
    assert.deepEqual(apiServerEndpoints(OBJECTS), [
      { port: 443, addresses: ['10.96.0.1'] },
      { port: 6443, addresses: ['192.0.2.11', '192.0.2.12'] },
    ]);
  });

  it('are none if the cluster has no such Service', () => {
    assert.deepEqual(apiServerEndpoints({ ...OBJECTS, services: [], endpointSlices: [] }), []);
  });

  it('keep their last value while none is listed', () => {
    const remember = lastKnownApiServer();
    const [own = assert.fail(), ...others] = OBJECTS.endpointSlices;
    const without = (endpointSlices: ClusterObjects['endpointSlices']) => ({ ...OBJECTS, endpointSlices });
    assert.deepEqual(remember(without(others)).endpointSlices, others, 'none is known yet');
    assert.equal(remember(OBJECTS), OBJECTS);
    const emptied = { ...own, addresses: [], ports: [] };
    for (const now of [[emptied, ...others], others]) {
      assert.deepEqual(remember(without(now)).endpointSlices, OBJECTS.endpointSlices);
    }
    const moved = without([{ ...own, addresses: ['192.0.2.13'] }, ...others]);
    assert.equal(remember(moved), moved);
    assert.deepEqual(remember(without(others)).endpointSlices, moved.endpointSlices);
  });
});

describe("the endpoints of the cluster's DNS", () => {
  const dns = (namespace: string, of: string, addresses: string[], port: number) =>
    ({
      ...slice(`${of}-x`, of, addresses, port),
      namespace,
      ports: [
        { protocol: 'UDP', port },
        { protocol: 'TCP', port },
        { protocol: 'TCP', port: 9153 },
      ],
    }) as const;

  it('are those on other ports than 53, without the port for metrics', () => {
    const endpointSlices = [
      dns('kube-system', 'kube-dns', ['10.1.0.9', '10.1.0.8'], 5353),
      dns('kube-system', 'other', ['10.1.0.7'], 5354),
      dns('openshift-dns', 'dns-default', ['10.2.0.9'], 5353),
    ];
    assert.deepEqual(clusterDnsEndpoints({ endpointSlices }), [
      { port: 5353, addresses: ['10.1.0.8', '10.1.0.9', '10.2.0.9'] },
      { protocol: 'udp', port: 5353, addresses: ['10.1.0.8', '10.1.0.9', '10.2.0.9'] },
    ]);
  });

  it('are none where it has port 53', () => {
    const endpointSlices = [dns('kube-system', 'kube-dns', ['10.1.0.9'], 53)];
    assert.deepEqual(clusterDnsEndpoints({ endpointSlices }), []);
  });
});
