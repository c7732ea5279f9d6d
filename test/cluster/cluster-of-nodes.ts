import type { Namespace } from '../netns/namespace.ts';
import { addressPlan, createTopology } from '../netns/topology.ts';
import { type ClusterOptions, startCluster, type TestCluster } from './cluster.ts';

interface ClusterOfNodesOptions {
  /** Names of Nodes, and their labels. */
  readonly nodes: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** How many machines are there besides that are no Nodes; default 0. */
  readonly others?: number;
  readonly cluster?: Omit<ClusterOptions, 'namespace' | 'address'>;
}

export interface Machine {
  /** The Node's; `other0`, `other1`, … where it is none. */
  readonly name: string;
  readonly namespace: Namespace;
  readonly v4: string;
  readonly v6: string;
}

export interface ClusterOfNodes {
  readonly cluster: TestCluster;
  /**
   * Where the API server runs and a controller belongs; others reach it by `address`. Traffic
   * between machines passes through it.
   */
  readonly controlPlane: Namespace;
  readonly address: string;
  readonly nodes: readonly Machine[];
  readonly others: readonly Machine[];
  /** A machine by its name; throws where there is none. */
  machine(name: string): Machine;
  close(): Promise<void>;
}

/**
 * A cluster whose machines are network namespaces: the API server's in the middle, around it Nodes,
 * with the objects and the addresses that kubelets would report, and machines that are none. Needs
 * root. Takes 4 to 8 s.
 */
export async function startClusterOfNodes(options: ClusterOfNodesOptions): Promise<ClusterOfNodes> {
  const nodeNames = Object.keys(options.nodes);
  const otherNames = Array.from({ length: options.others ?? 0 }, (_, i) => `other${i}`);
  const names = [...nodeNames, ...otherNames];
  const plan = addressPlan({ clients: names.length, addressesPerClient: 1, nodeAddresses: 1 });
  const address = plan.nodeAddresses[0]?.v4 ?? '';
  const topology = await createTopology(plan);
  const machines = plan.clientAddresses.map(({ v4, v6, client }): Machine => {
    const namespace = topology.clients[client];
    const name = names[client];
    if (namespace === undefined || name === undefined) throw new Error(`no namespace for ${v4}`);
    return { name, namespace, v4, v6 };
  });
  let cluster: TestCluster;
  try {
    cluster = await startCluster({ ...options.cluster, namespace: topology.node, address });
  } catch (error) {
    await topology.close();
    throw error;
  }
  const close = async (): Promise<void> => {
    await cluster.close();
    await topology.close();
  };
  const nodes = machines.slice(0, nodeNames.length);
  try {
    for (const { name, v4, v6 } of nodes) {
      const metadata = { name, labels: { 'kubernetes.io/hostname': name, ...options.nodes[name] } };
      await cluster.apply(JSON.stringify({ apiVersion: 'v1', kind: 'Node', metadata }));
      const addresses = [v4, v6].map((one) => ({ type: 'InternalIP', address: one }));
      await cluster.patchStatus([`node/${name}`], { addresses });
    }
  } catch (error) {
    await close();
    throw error;
  }
  return {
    cluster,
    controlPlane: topology.node,
    address,
    nodes,
    others: machines.slice(nodeNames.length),
    machine(name) {
      const found = machines.find((one) => one.name === name);
      if (found === undefined) throw new Error(`no machine ${name}`);
      return found;
    },
    close,
  };
}
