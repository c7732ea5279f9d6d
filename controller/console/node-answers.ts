import type { Verdict } from '../../apis/flow.ts';
import type { Direction, PolicyTraffic, RuleAction } from '../../apis/objects.ts';
import { asFields, type FieldMap } from '../../apis/schema/json-schema.ts';
import { parseAddress, parseCidr } from '../../lib/net/address.ts';
import { utcText } from '../../lib/process/clock.ts';

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

export interface RuleName {
  readonly policy: string;
  readonly rule: string;
}

/** The counter of a rule. */
export interface CountOfNode {
  readonly id: string;
  readonly packets: number;
  readonly bytes: number;
  readonly lastHit: string | null;
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

export function countsOfNode(answer: unknown): CountOfNode[] {
  return fieldsIn(answer, 'rules').flatMap((rule) => {
    const [id, packets, bytes] = [text(rule.id), count(rule.packets), count(rule.bytes)];
    return id === null || packets === null || bytes === null
      ? []
      : [{ id, packets, bytes, lastHit: time(rule.lastHit) }];
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
