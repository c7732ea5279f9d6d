/**
 * A real kube-proxy beside an agent: Services keep working, and a NodePort policy decides on what
 * it passes on.
 */

import assert from 'node:assert/strict';
import type { Daemon } from '../../cluster/daemon.ts';
import { startKubeProxy } from '../../cluster/kube-proxy.ts';
import { kernelSuite } from '../../kernel/kernel-suite.ts';
import { cidr, tcp } from '../../kernel/manifests.ts';
import { changes } from '../labs.ts';
import { closed, realized, type Story } from '../story-bed.ts';

const PORT = 8080;
const CLUSTER_IP = '10.96.0.77';
const NODE_PORT = 30_080;
/** All but the port by which machines are known to be there. */
const DENY = [
  { name: 'control', action: 'Allow', ports: [tcp(7)] },
  { name: 'deny', action: 'Drop' },
];

kernelSuite('a story of Services', () => {
  const begun = changes.use();
  let story: Story;
  let worker: string;
  let proxy: Daemon;
  before(async () => {
    story = begun();
    const { namespace, v4 } = story.machine('worker-1');
    worker = v4;
    await story.applied(...service(story.machine('other0').v4));
    proxy = await startKubeProxy({ cluster: story.cluster, namespace, node: 'worker-1' });
  });
  after(() => proxy?.stop('SIGKILL'));

  const works = async (): Promise<void> => {
    await story.gets('worker-1', CLUSTER_IP, PORT, 'answered');
    await story.gets('other2', worker, NODE_PORT, 'answered');
  };

  it('uses Nodes as kubelets report them', async () => {
    const { v4, v6 } = story.machine('worker-1');
    const { metadata, status } = await story.cluster.get<NodeObject>('node', 'worker-1');
    assert.deepEqual(metadata.labels, { 'kubernetes.io/hostname': 'worker-1', role: 'worker' });
    const addresses = [v4, v6].map((address) => ({ type: 'InternalIP', address }));
    assert.deepEqual(status.addresses, addresses);
  });

  it('makes Services reachable, and follows their changes', async () => {
    await works();
    await story.cluster.remove('endpointslice', 'hello');
    await story.gets('worker-1', CLUSTER_IP, PORT, 'ECONNREFUSED');
    await story.applied(...service(story.machine('other0').v4));
  });

  it('work beside an agent, with any port closed on the Host', async () => {
    await works();
    await story.applied(closed('host', PORT, { ingress: DENY }));
    await story.sees('other1', 'worker-1', PORT, 'closed');
    await story.statusIs('host', realized(2));
    await works();
    await story.gets('other1', worker, NODE_PORT, 'answered');
  });

  it('are open to clients that a NodePort policy allows', async () => {
    const from = [cidr(`${story.machine('other1').v4}/32`)];
    const ingress = [{ name: 'close', action: 'Drop', from, ports: [tcp(NODE_PORT)] }];
    await story.applied(closed('ports', PORT, { traffic: 'NodePort', ingress }));
    await story.gets('other1', worker, NODE_PORT, 'silence');
    await story.statusIs('ports', realized(2));
    await works();
    const reject = [{ name: 'close', action: 'Reject', from, ports: [tcp(NODE_PORT)] }];
    await story.applied(closed('ports', PORT, { traffic: 'NodePort', ingress: reject }));
    await story.gets('other1', worker, NODE_PORT, 'ECONNREFUSED');
    await story.statusIs('ports', realized(2));
    await works();
    await story.sameBytes();
    await story.cluster.remove('ncnp', 'ports');
    await story.gets('other1', worker, NODE_PORT, 'answered');
  });

  it('change while the agent restarts and its table is removed and added', async () => {
    await story.agents['worker-1']?.end('SIGKILL');
    await story.applied(...service(story.machine('cp-1').v4));
    await works();
    story.agents['worker-1']?.start();
    await story.setGate(false);
    await story.sees('other1', 'worker-1', PORT, 'open');
    await works();
    await story.setGate(true);
    await story.sees('other1', 'worker-1', PORT, 'closed');
    await works();
    const { stdout } = await story.machine('worker-1').namespace.run(['nft', 'list', 'tables']);
    assert.match(stdout, /table ip kube-proxy/);
    await story.sameBytes();
  });

  it('are the peers of toServices', async () => {
    const toServices = [{ name: 'hello', namespace: 'default' }];
    const egress = [{ name: 'hello', action: 'Drop', toServices }];
    await story.applied(closed('egress', PORT, { ingress: [], egress }));
    await story.statusIs('egress', realized(2));
    // No pod has the endpoint's address.
    await story.gets('worker-1', CLUSTER_IP, PORT, 'answered');
    await story.applied(...backendPod());
    const podIP = story.machine('cp-1').v4;
    const pod = ['pod/hello', '--namespace=default'];
    await story.cluster.patchStatus(pod, { phase: 'Running', podIP, podIPs: [{ ip: podIP }] });
    await story.gets('worker-1', CLUSTER_IP, PORT, 'silence');
    await story.statusIs('egress', realized(2));
    await story.gets('other2', worker, NODE_PORT, 'answered');
    await story.sameBytes();
  });
});

interface NodeObject {
  readonly metadata: { readonly labels: object };
  readonly status: { readonly addresses: readonly object[] };
}

/** The pod behind the Service, on its Node's network. */
function backendPod(): object[] {
  const metadata = { name: 'hello', namespace: 'default' };
  const containers = [{ name: 'c', image: 'i' }];
  const spec = { hostNetwork: true, terminationGracePeriodSeconds: 0, containers };
  return [{ apiVersion: 'v1', kind: 'Pod', metadata, spec }];
}

function service(backend: string): object[] {
  return nodePortService({ clusterIP: CLUSTER_IP, port: PORT, nodePort: NODE_PORT, backend });
}

interface NodePortService {
  readonly clusterIP: string;
  readonly port: number;
  readonly nodePort: number;
  /** The one endpoint. */
  readonly backend: string;
}

/**
 * The Service `default/hello`, TCP over IPv4, with the EndpointSlice that no controller makes here.
 */
function nodePortService({ clusterIP, port, nodePort, backend }: NodePortService): object[] {
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
