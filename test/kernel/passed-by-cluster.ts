/**
 * A node with pods, and clients outside of it: `friend` and `stranger` behind an interface of no
 * group, two pods on the node behind interfaces of the group `pods`, one on another node behind
 * `clusternet`, and one on the node's own network.
 */
import type { Namespace } from '../netns/namespace.ts';
import type { AddressPair, AddressPlan } from '../netns/topology.ts';
import type { Dataplane } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { FAMILIES, type Family, type Kind, type Protocol, type Shape, type Way } from './passed-by.ts';
import { createParty, type Party } from './passed-by-party.ts';
import type { Answer } from './passed-by-peer.ts';

const FRIEND = { v4: '198.18.0.7', v6: '2001:db8:18::7' };
const STRANGER = { v4: '203.0.113.9', v6: '2001:db8:9::9' };
const NODE = { v4: '192.168.10.11', v6: 'fd00:10::11' };
const OTHER_OWN = { v4: '192.168.10.12', v6: 'fd00:10::12' };
const PODS = {
  local: { v4: '10.244.1.2', v6: 'fd00:244:1::2' },
  neighbour: { v4: '10.244.1.3', v6: 'fd00:244:1::3' },
  remote: { v4: '10.244.2.2', v6: 'fd00:244:2::2' },
} as const;

export const ADDRESSES = { FRIEND, STRANGER, NODE, OTHER_OWN, ...PODS } as const;
export const POD_PORT = 8080;
const POD_CIDR = { 4: '10.244.0.0/16', 6: 'fd00:244::/32' } as const;
/** Namespaces, in the plan's order. */
const OUTSIDE = 0;
const LOCAL = 1;
const NEIGHBOUR = 2;
const REMOTE = 3;

const PLAN: AddressPlan = {
  nodeAddresses: [NODE, OTHER_OWN],
  clientAddresses: [
    { ...FRIEND, client: OUTSIDE, group: 0 },
    { ...STRANGER, client: OUTSIDE, group: 0 },
    { ...PODS.local, client: LOCAL, group: 8 },
    { ...PODS.neighbour, client: NEIGHBOUR, group: 8 },
    { ...PODS.remote, client: REMOTE, group: 9 },
  ],
  multicastGroups: [],
};

/** Where the pod is that the client reaches, and whether it sees the client's own address. */
export const TARGETS = {
  local: { pod: PODS.local, masqueraded: false },
  masqueraded: { pod: PODS.local, masqueraded: true },
  remote: { pod: PODS.remote, masqueraded: true },
  host: { pod: NODE, masqueraded: false },
} as const;
export type Target = keyof typeof TARGETS;

export interface Cluster {
  readonly node: EnforcedNode;
  readonly ways: readonly (Way & { readonly target: Target })[];
  readonly outside: Party;
  readonly local: Party;
  readonly neighbour: Party;
  readonly remote: Party;
  readonly host: Party;
  close(): Promise<void>;
}

/** No Services at all. */
export const NO_NAT: Shape = {
  name: 'no NAT',
  kinds: [],
  missing: async () => undefined,
  install: async () => {},
};

/**
 * A cluster in which `shape` passes on what its kinds of Services and ports promise. Its parties
 * listen, but for `isSilent`: then they are not started, for floods, which nobody has to answer.
 */
export async function createCluster(
  shape: Shape,
  dataplane?: Dataplane,
  { isSilent = false }: { readonly isSilent?: boolean } = {},
): Promise<Cluster> {
  const node = await createEnforcedNode(PLAN, dataplane);
  try {
    const { topology } = node;
    const party = (namespace: Namespace | undefined): Party => {
      if (namespace === undefined) throw new Error('a client is missing');
      return isSilent ? NOBODY : createParty(namespace);
    };
    const client = (index: number): Party => party(topology.clients[index]);
    const [outside, local, neighbour, remote] = [
      client(OUTSIDE),
      client(LOCAL),
      client(NEIGHBOUR),
      client(REMOTE),
    ];
    const host = party(topology.node);
    const ways = waysOf(shape);
    // As nodes have one: what they send to a cluster IP is routed before NAT changes it.
    const outwards = topology.nodeInterface(OUTSIDE);
    const routes = ['169.254.77.2', 'fe80::2'].map(
      (via) => `route add default via ${via} dev ${outwards} onlink`,
    );
    await topology.node.run(['ip', '-batch', '-'], { stdin: routes.join('\n') });
    await shape.install(topology.node, ways, {
      nodeAddresses: { 4: [NODE.v4, OTHER_OWN.v4], 6: [NODE.v6, OTHER_OWN.v6] },
      podCidr: POD_CIDR,
    });
    const listeners: readonly (readonly [Party, AddressPair])[] = [
      [local, PODS.local],
      [neighbour, PODS.neighbour],
      [remote, PODS.remote],
      [host, NODE],
      [outside, FRIEND],
      [outside, STRANGER],
    ];
    await Promise.all(
      listeners.flatMap(([who, { v4, v6 }]) => [v4, v6].map((one) => who.listen(one, [POD_PORT]))),
    );
    return { node, ways, outside, local, neighbour, remote, host, close: () => node.close() };
  } catch (error) {
    await node.close();
    throw error;
  }
}

const NOBODY: Party = {
  listen: async () => {},
  call: () => Promise.reject(new Error('the parties of this cluster are not started')),
  again: () => Promise.reject(new Error('the parties of this cluster are not started')),
};

/** Each kind × target × protocol × family, on a port of its own for each kind and target. */
function waysOf(shape: Shape): Cluster['ways'] {
  const protocols: readonly Protocol[] = ['tcp', 'udp'];
  let service = 10;
  return shape.kinds.flatMap((kind) =>
    targetsOf(kind).flatMap((target, i) =>
      protocols.flatMap((protocol) =>
        FAMILIES.map((family) => {
          const { pod, masqueraded } = TARGETS[target];
          const own = ++service;
          return {
            name: `${kind}-${target}-${protocol}`,
            kind,
            target,
            protocol,
            family,
            address: WHERE[kind].address[family],
            port: WHERE[kind].port + i,
            clusterIP: family === 4 ? `10.96.0.${own}` : `fd96::${own}`,
            clusterPort: 80,
            pod: of(pod, family),
            podPort: POD_PORT,
            masqueraded,
          };
        }),
      ),
    ),
  );
}

/** Host ports are pods' of the node. */
function targetsOf(kind: Kind): Target[] {
  return kind === 'hostPort' || kind === 'hostPortOfAddress'
    ? ['local']
    : ['local', 'masqueraded', 'remote', 'host'];
}

const WHERE: Readonly<Record<Kind, { address: Readonly<Record<Family, string>>; port: number }>> = {
  nodePort: { address: { 4: NODE.v4, 6: NODE.v6 }, port: 30_000 },
  loadBalancer: { address: { 4: '192.0.2.100', 6: '2001:db8:100::1' }, port: 443 },
  externalIP: { address: { 4: '198.51.100.100', 6: '2001:db8:101::1' }, port: 9000 },
  hostPort: { address: { 4: NODE.v4, 6: NODE.v6 }, port: 7000 },
  hostPortOfAddress: { address: { 4: OTHER_OWN.v4, 6: OTHER_OWN.v6 }, port: 7100 },
};

export function of({ v4, v6 }: AddressPair, family: Family): string {
  return family === 4 ? v4 : v6;
}

/** Milliseconds without an answer that are silence, where silence is what should be. */
export const PATIENCE = 400;
/**
 * So long an answer that must come is waited for (milliseconds): it costs nothing when it comes.
 */
export const ANSWER_PATIENCE = 5_000;

interface CallOptions {
  readonly from?: AddressPair;
  readonly leaveOpen?: boolean;
  /** Milliseconds. */
  readonly patience?: number;
}

/** Calls by one of the ways, from a client outside. */
export function callBy(
  { outside }: Pick<Cluster, 'outside'>,
  way: Way,
  { from = STRANGER, leaveOpen = false, patience = ANSWER_PATIENCE }: CallOptions = {},
): Promise<Answer> {
  const { protocol, family, address: dst, port } = way;
  return outside.call({ protocol, family, src: of(from, family), dst, port, patience, leaveOpen });
}
