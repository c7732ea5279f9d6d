import {
  type AskedNodes,
  type DeniedPeer,
  type DeniedPeers,
  MOST_ASKED,
  MOST_PEERS,
} from '../../apis/console-documents.ts';
import type { Verdict } from '../../apis/flow.ts';
import type { NodeQuestion, QuestionAnswer } from '../../apis/node-question.ts';
import type { Direction, PolicyTraffic, RuleAction } from '../../apis/objects.ts';
import { asFields, type FieldMap } from '../../apis/schema/json-schema.ts';
import { parseAddress, parseCidr } from '../../lib/net/address.ts';
import { utcText } from '../../lib/process/clock.ts';
import { atOnce } from '../../lib/process/lane.ts';

/**
 * Nodes' answers (agent/inspect), as far as the console shows them. A node may be compromised:
 * values that are not of the right type are left out, and texts are cut.
 */

/** A kind of flows of a node's inventory. */
export interface FlowOfNode {
  readonly direction: Direction;
  readonly traffic: PolicyTraffic;
  readonly peer: string;
  readonly protocol: string | number;
  readonly port: number | null;
  readonly icmpType: number | null;
  readonly verdict: Verdict;
  readonly connections: number;
  readonly live: number | null;
  readonly firstSeen: string;
  readonly lastSeen: string;
  readonly decision: { readonly verdict: Verdict; readonly rule: RuleName | null } | null;
}

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
const VERDICTS = ['Allow', 'Drop', 'Reject'] as const satisfies readonly Verdict[];
const ACTIONS = [...VERDICTS, 'Pass'] as const satisfies readonly RuleAction[];

export function flowsOfNode(answer: unknown): FlowOfNode[] {
  return fieldsIn(answer, 'flows').flatMap((flow) => {
    const [direction, verdict] = [directionOf(flow), oneOf(VERDICTS, flow.verdict)];
    const [peer, firstSeen, lastSeen] = [place(flow.peer), time(flow.firstSeen), time(flow.lastSeen)];
    if (direction === null || verdict === null || peer === null || firstSeen === null || lastSeen === null)
      return [];
    const decision = asFields(flow.decision);
    const decided = oneOf(VERDICTS, decision?.verdict);
    return [
      {
        direction,
        traffic: flow.traffic === 'NodePort' ? ('NodePort' as const) : ('Host' as const),
        peer,
        protocol: protocol(flow.protocol),
        port: count(flow.port),
        verdict,
        firstSeen,
        lastSeen,
        connections: count(flow.connections) ?? 0,
        icmpType: count(flow.icmpType),
        live: count(flow.live),
        decision: decided === null ? null : { verdict: decided, rule: ruleName(decision) },
      },
    ];
  });
}

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

/** An address or a network: what is none would be compared with rules as any address. */
function place(value: unknown): string | null {
  const given = text(value);
  return given !== null && (parseAddress(given) !== null || parseCidr(given) !== null) ? given : null;
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
  const failed: AskedNodes['failed'][number][] = [];
  await atOnce(asked, AT_ONCE, async (node) => {
    try {
      for (const question of questions) {
        const answered = await ask(node, question);
        if ('problem' in answered) throw new Error(answered.problem);
        take(node, question.about, JSON.parse(answered.text));
      }
    } catch (error) {
      failed.push({ node, message: (error as Error).message });
    }
  });
  failed.sort((a, b) => (a.node < b.node ? -1 : 1));
  return { nodes: asked, failed, notAsked: Math.max(0, all - asked.length) };
}

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

export function earlier(a: string | undefined, b: string): string {
  return a !== undefined && Date.parse(a) < Date.parse(b) ? a : b;
}

export function later(a: string | undefined, b: string): string {
  return a !== undefined && Date.parse(a) > Date.parse(b) ? a : b;
}

/** Sorted. */
export function withNode(nodes: readonly string[] = [], node: string): readonly string[] {
  return nodes.includes(node) ? nodes : [...nodes, node].sort();
}
