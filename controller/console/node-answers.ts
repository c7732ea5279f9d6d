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
import type { Direction, RuleAction } from '../../apis/objects.ts';
import { asFields, type FieldMap } from '../../apis/schema/json-schema.ts';
import { utcText } from '../../lib/process/clock.ts';
import { compareText } from '../../lib/sharing/lists.ts';
import { present } from '../../lib/sharing/present.ts';
import { askEach } from '../kubeapi/ask-nodes.ts';

/**
 * Nodes' answers (agent/inspect), as far as the console shows them. A node may be compromised:
 * values that are not of the right type are left out, and texts are cut.
 */

interface RuleName {
  readonly policy: string;
  readonly rule: string;
}

/** A line of the flow log. */
export interface RecordOfNode extends RuleName {
  readonly time: string;
  readonly direction: Direction;
  readonly verdict: RuleAction;
  readonly peer: string;
  readonly protocol: string | number;
  readonly port: number | null;
}

const LONGEST = 256;
const ACTIONS = ['Allow', 'Drop', 'Reject', 'Pass'] as const satisfies readonly RuleAction[];

/** The records, and whether the node has more. */
export function recordsOfNode(answer: unknown): {
  readonly records: RecordOfNode[];
  readonly isCut: boolean;
} {
  const records = fieldsIn(answer, 'records').flatMap((record) => {
    const [direction, verdict, rule] = [
      directionOf(record),
      oneOf(ACTIONS, record.verdict),
      ruleName(record),
    ];
    const [at, peer] = [time(record.time), text(direction === 'ingress' ? record.src : record.dst)];
    if (direction === null || verdict === null || rule === null || at === null || peer === null) return [];
    const port = count(record.originalDstPort) ?? count(record.dstPort);
    return [{ ...rule, time: at, direction, verdict, peer, protocol: protocol(record.protocol), port }];
  });
  return { records, isCut: asFields(answer)?.isCut === true };
}

function fieldsIn(answer: unknown, list: string): FieldMap[] {
  const found = asFields(answer)?.[list];
  const fields = Array.isArray(found) ? found.map(asFields) : [];
  return fields.filter((one) => one !== null);
}

function ruleName(fields: FieldMap | null): RuleName | null {
  const [policy, rule] = [text(fields?.policy), text(fields?.rule)];
  return policy === null || rule === null ? null : { policy, rule };
}

function directionOf({ direction }: FieldMap): Direction | null {
  return direction === 'ingress' || direction === 'egress' ? direction : null;
}

function oneOf<T extends string>(values: readonly T[], value: unknown): T | null {
  return values.find((one) => one === value) ?? null;
}

function protocol(value: unknown): string | number {
  return typeof value === 'number' ? value : (text(value) ?? '');
}

function text(value: unknown): string | null {
  return typeof value === 'string' ? value.slice(0, LONGEST) : null;
}

function time(value: unknown): string | null {
  const milliseconds = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isNaN(milliseconds) ? null : utcText(milliseconds);
}

function count(value: unknown): number | null {
  return Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : null;
}

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
