import type { NodeFlow } from '../../apis/node-flows.ts';

/** The most that is kept of names and addresses; beyond it they are counted. */
const MOST_NODES = 3;
const MOST_ADDRESSES = 64;

/**
 * The evidence for something: connections, when, and where. Times are in milliseconds since 1970.
 */
export interface Evidence {
  connections: number;
  /** Connections that were open when the nodes were asked. */
  live: number;
  firstSeen: number;
  lastSeen: number;
  /** The first nodes by name that saw it, and the number of all. */
  readonly nodes: string[];
  nodeCount: number;
  /** Addresses of the peer; the first MOST_ADDRESSES. */
  readonly addresses: Set<string>;
  /** Whether there were more addresses. */
  isCut: boolean;
}

export function evidenceOf(kind: NodeFlow, node: string): Evidence {
  return {
    connections: kind.connections,
    live: kind.live ?? 0,
    firstSeen: Date.parse(kind.firstSeen),
    lastSeen: Date.parse(kind.lastSeen),
    nodes: [node],
    nodeCount: 1,
    addresses: new Set([kind.peer]),
    isCut: false,
  };
}

export function copyOf(evidence: Evidence): Evidence {
  return { ...evidence, nodes: [...evidence.nodes], addresses: new Set(evidence.addresses) };
}

/** Adds `more` to `to`. @param isOfOneNode whether both are of the same node */
export function addEvidence(to: Evidence, more: Evidence, isOfOneNode = false): void {
  to.connections += more.connections;
  to.live += more.live;
  to.firstSeen = Math.min(to.firstSeen, more.firstSeen);
  to.lastSeen = Math.max(to.lastSeen, more.lastSeen);
  for (const address of more.addresses) {
    if (to.addresses.size < MOST_ADDRESSES) to.addresses.add(address);
    else if (!to.addresses.has(address)) to.isCut = true;
  }
  to.isCut ||= more.isCut;
  if (isOfOneNode) return;
  to.nodeCount += more.nodeCount;
  // Not the first that answered: they are others the next time.
  const nodes = [...new Set([...to.nodes, ...more.nodes])].sort().slice(0, MOST_NODES);
  to.nodes.splice(0, MOST_NODES, ...nodes);
}

/** The sum, for a rule or a peer; null if there is nothing. */
export function sumOf(all: Iterable<Evidence>): Evidence | null {
  let sum: Evidence | null = null;
  for (const one of all) {
    if (sum !== null) addEvidence(sum, one);
    else sum = copyOf(one);
  }
  return sum;
}
