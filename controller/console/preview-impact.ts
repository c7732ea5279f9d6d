import { setImmediate as turn } from 'node:timers/promises';
import {
  type ImpactKind,
  MOST_PEERS,
  type Preview,
  type PreviewImpact,
} from '../../apis/console-documents.ts';
import { mayBeInRow } from '../../apis/difference/row.ts';
import type { Flow } from '../../apis/flow.ts';
import type { NodeQuestion } from '../../apis/node-question.ts';
import { type AskNode, askNodes } from './ask-nodes.ts';
import { earlier, later, withNode } from './denied-peers.ts';
import { type FlowOfNode, flowsOfNode } from './node-answers.ts';
import type { DeniedRows } from './preview.ts';

/** Kinds of flows of a node's answer: the last seen. */
const SEEN: NodeQuestion = { about: 'flows', query: 'lines=1500' };
/** Kinds that are compared without a pause for others. */
const AT_ONCE = 200;

/** The flows that nodes have seen among what a change would deny. */
export async function previewImpact(
  { noDifference }: Pick<Preview, 'noDifference'>,
  denied: readonly DeniedRows[],
  ask: AskNode,
): Promise<PreviewImpact> {
  if (noDifference !== null)
    return { reason: 'without the difference nothing can be compared with what nodes see' };
  const groups = new Map(denied.flatMap((group) => group.nodes.map((node) => [node, group])));
  const nodes = [...groups.keys()].sort();
  if (nodes.length === 0) return { reason: 'nothing that is allowed now would be denied' };
  const seen: { readonly node: string; readonly flow: FlowOfNode }[] = [];
  const asked = await askNodes({ ask, nodes, all: nodes.length }, [SEEN], (node, _, answer) => {
    for (const flow of flowsOfNode(answer)) if (flow.verdict === 'Allow') seen.push({ node, flow });
  });
  const kinds = new Map<string, ImpactKind>();
  for (const [i, { node, flow }] of seen.entries()) {
    if (i % AT_ONCE === AT_ONCE - 1) await turn();
    const { rows = [] } = groups.get(node) ?? {};
    const asFlow = toFlow(flow);
    if (rows.some((row) => mayBeInRow(row, asFlow))) add(kinds, node, flow);
  }
  const all = [...kinds.values()].sort((a, b) => b.connections - a.connections);
  return { asked, newlyDenied: all.slice(0, MOST_PEERS), isCut: all.length > MOST_PEERS };
}

/** A kind that stands for many becomes a flow with their common fields. */
function toFlow({ direction, traffic, peer, protocol, port, icmpType }: FlowOfNode): Flow {
  const isOne = !peer.includes('/');
  return {
    direction,
    traffic,
    protocol: protocol as NonNullable<Flow['protocol']>,
    ...(isOne ? { [direction === 'ingress' ? 'src' : 'dst']: peer } : {}),
    ...(port === null ? {} : { dstPort: port }),
    ...(icmpType === null ? {} : { icmpType }),
  };
}

function add(kinds: Map<string, ImpactKind>, node: string, flow: FlowOfNode): void {
  const { direction, traffic, peer, protocol, port, decision } = flow;
  const of = { peer, direction, traffic, protocol, port, rule: decision?.rule ?? null };
  const key = JSON.stringify(of);
  const known = kinds.get(key);
  kinds.set(key, {
    ...of,
    connections: (known?.connections ?? 0) + flow.connections,
    live: flow.live === null && known?.live == null ? null : (known?.live ?? 0) + (flow.live ?? 0),
    firstSeen: earlier(known?.firstSeen, flow.firstSeen),
    lastSeen: later(known?.lastSeen, flow.lastSeen),
    nodes: withNode(known?.nodes, node),
  });
}
