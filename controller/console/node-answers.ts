import {
  type AskedNodes,
  type DeniedPeers,
  type FlowOnNodes,
  type FlowsOnNodes,
  MOST_ASKED,
  MOST_PEERS,
} from '../../apis/console-documents.ts';
import { type NodeFlow, parseNodeFlows } from '../../apis/node-flows.ts';
import type { NodeQuestion, QuestionAnswer, UnansweredNode } from '../../apis/node-question.ts';
import { compareText } from '../../lib/sharing/lists.ts';
import { present } from '../../lib/sharing/present.ts';
import { askEach } from '../kubeapi/ask-nodes.ts';

export type AskNode = (node: string, question: NodeQuestion) => Promise<QuestionAnswer>;

/** Nodes that are asked at the same time: an answer has up to a megabyte. */
const AT_ONCE = 8;

/**
 * Asks nodes the same, and gives each answer to `take`. Those beyond the first `MOST_ASKED`, and
 * those that do not answer in time, are only named.
 *
 * @param all how many nodes there are
 * @param take gets parsed JSON of whatever form; may throw, which counts as no answer
 */
export async function askNodes(
  { ask, nodes, all }: { readonly ask: AskNode; readonly nodes: readonly string[]; readonly all: number },
  questions: readonly NodeQuestion[],
  take: (node: string, about: NodeQuestion['about'], answer: unknown) => void,
): Promise<AskedNodes> {
  const asked = nodes.slice(0, MOST_ASKED);
  const failed: UnansweredNode[] = [];
  const askOne = async (node: string): Promise<void> => {
    for (const question of questions) {
      const answered = await ask(node, question);
      if ('problem' in answered) throw new Error(answered.problem);
      take(node, question.about, JSON.parse(answered.text));
    }
  };
  await askEach(asked, askOne, (node, error) => failed.push({ node, error }), AT_ONCE);
  failed.sort((a, b) => compareText(a.node, b.node));
  return { nodes: asked, failed, notAsked: Math.max(0, all - asked.length) };
}

/** Kinds of flows of a node's answer: the last seen. */
const DENIED: NodeQuestion = { about: 'flows', query: 'denied=true&lines=500' };

/** The peers that were denied on these nodes. */
export async function deniedPeers(
  whom: { readonly ask: AskNode; readonly nodes: readonly string[]; readonly all: number },
  now: () => Date,
): Promise<DeniedPeers> {
  const sums = new FlowSums();
  const asked = await askNodes(whom, [DENIED], (node, _, answer) => {
    for (const flow of parseNodeFlows(answer).flows) sums.add(node, flow);
  });
  return { time: now().toISOString(), asked, ...sums.first() };
}

/** Characters: a longer one has names that no policy has. */
const LONGEST_KEY = 1_500;

/** Flows of nodes, equal ones added up. */
export class FlowSums {
  readonly #flows = new Map<string, FlowOnNodes>();

  add(node: string, { direction, traffic, peer, protocol, port, verdict, ...flow }: NodeFlow): void {
    const { verdict: decided, policy, rule } = flow.decision ?? {};
    const decision = decided && { verdict: decided, policy: policy ?? null, rule: rule ?? null };
    const of = {
      direction,
      traffic,
      peer,
      protocol,
      ...present({ port }),
      verdict,
      decision: decision ?? null,
    };
    const key = JSON.stringify(of);
    if (key.length > LONGEST_KEY) return;

    const known = this.#flows.get(key);
    const { live, connections, firstSeen, lastSeen } = flow;
    this.#flows.set(key, {
      ...of,
      connections: (known?.connections ?? 0) + connections,
      live: live === null && known?.live == null ? null : (known?.live ?? 0) + (live ?? 0),
      firstSeen: earlier(known?.firstSeen, firstSeen),
      lastSeen: later(known?.lastSeen, lastSeen),
      nodes: withNode(known?.nodes, node),
    });
  }

  /** Those with most connections, at most `MOST_PEERS`. */
  first(): Pick<FlowsOnNodes, 'flows' | 'isCut'> {
    const all = [...this.#flows.values()].sort(
      (a, b) => b.connections - a.connections || Date.parse(b.lastSeen) - Date.parse(a.lastSeen),
    );
    return { flows: all.slice(0, MOST_PEERS), isCut: all.length > MOST_PEERS };
  }
}

function earlier(a: string | undefined, b: string): string {
  return a !== undefined && Date.parse(a) < Date.parse(b) ? a : b;
}

export function later(a: string | undefined, b: string): string {
  return a !== undefined && Date.parse(a) > Date.parse(b) ? a : b;
}

/** Sorted. */
export function withNode(nodes: readonly string[] = [], node: string): readonly string[] {
  return nodes.includes(node) ? nodes : [...nodes, node].sort();
}
