import { type DeniedPeer, type DeniedPeers, MOST_PEERS } from '../../apis/console-documents.ts';
import type { NodeQuestion } from '../../apis/node-question.ts';
import { type AskNode, askNodes } from './ask-nodes.ts';
import { type FlowOfNode, flowsOfNode } from './node-answers.ts';

/** Kinds of flows of a node's answer: the last seen. */
const DENIED: NodeQuestion = { about: 'flows', query: 'denied=true&lines=500' };

/** The peers that were denied on these nodes. */
export async function deniedPeers(
  whom: { readonly ask: AskNode; readonly nodes: readonly string[]; readonly all: number },
  now: () => Date,
): Promise<DeniedPeers> {
  const peers = new Map<string, DeniedPeer>();
  const asked = await askNodes(whom, [DENIED], (node, _, answer) => {
    for (const flow of flowsOfNode(answer)) add(peers, node, flow);
  });
  const all = [...peers.values()].sort(
    (a, b) => b.connections - a.connections || (a.lastSeen > b.lastSeen ? -1 : 1),
  );
  const isCut = all.length > MOST_PEERS;
  return { time: now().toISOString(), asked, peers: all.slice(0, MOST_PEERS), isCut };
}

function add(peers: Map<string, DeniedPeer>, node: string, flow: FlowOfNode): void {
  const { direction, traffic, peer, protocol, port, verdict, decision } = flow;
  const rule = decision?.rule ?? null;
  const isAllowedNow = decision?.verdict === 'Allow';
  const of = { peer, direction, traffic, protocol, port, verdict, rule, isAllowedNow };
  const key = JSON.stringify(of);
  const known = peers.get(key);
  peers.set(key, {
    ...of,
    connections: (known?.connections ?? 0) + flow.connections,
    firstSeen: earlier(known?.firstSeen, flow.firstSeen),
    lastSeen: later(known?.lastSeen, flow.lastSeen),
    nodes: withNode(known?.nodes, node),
  });
}

/** The earlier of two times in one form. */
export function earlier(a: string | undefined, b: string): string {
  return a !== undefined && a < b ? a : b;
}

export function later(a: string | undefined, b: string): string {
  return a !== undefined && a > b ? a : b;
}

/** Sorted. */
export function withNode(nodes: readonly string[] = [], node: string): readonly string[] {
  return nodes.includes(node) ? nodes : [...nodes, node].sort();
}
