import { setImmediate as yielded } from 'node:timers/promises';
import type { Config } from '../../apis/config.ts';
import type { Answer, Verdict } from '../../apis/flow.ts';
import type { FlowFilter } from '../flows/flow-filter.ts';
import type { Missed } from '../flows/flow-inventory.ts';
import type { FlowKind } from '../flows/flow-kind.ts';
import type { FlowSource } from '../flows/flow-source.ts';
import { toFlow } from '../flows/kind-flow.ts';
import { groupName } from '../interfaces/classify.ts';
import { type Explainer, explainMany } from '../observe/explain.ts';
import { type Protocol, protocolName } from '../record/packet.ts';
import { withNames } from './explanation.ts';
import { readStateIfAny } from './saved-state.ts';

/** Kinds of flows of a node. Times are ISO 8601, to the second. */
export interface NodeFlows {
  readonly node: string;
  /** Since when flows are seen. */
  readonly since: string;
  /** When live connections were counted; null: they cannot be. */
  readonly liveAt: string | null;
  /** Last seen first. */
  readonly flows: readonly NodeFlow[];
  /** Whether more kinds match. */
  readonly isCut: boolean;
  /** Kinds of the inventory. */
  readonly kinds: number;
  readonly missed: Missed;
}

export interface NodeFlow {
  readonly direction: 'ingress' | 'egress';
  readonly traffic: 'Host' | 'NodePort';
  /** An address, or a CIDR for many. */
  readonly peer: string;
  readonly protocol: Protocol;
  /** Of the server. */
  readonly port?: number;
  readonly icmpType?: number;
  readonly icmpCode?: number;
  /** Many ports, or types, that no other kind names. */
  readonly allPorts?: true;
  /** Link group of the interface: a name of the configuration, else the number. Absent: none. */
  readonly interfaceGroup?: string | number;
  /** What became of the flows. */
  readonly verdict: Verdict;
  readonly connections: number;
  /** Null: not known. */
  readonly live: number | null;
  readonly firstSeen: string;
  readonly lastSeen: string;
  /** What rules are asked about, of many: the last that was seen. */
  readonly example?: { readonly peer: string; readonly port?: number };
  /** What the rules in force decide; null: none are in force. */
  readonly decision: Answer | null;
}

/** Kinds that are evaluated without a pause. */
const AT_ONCE = 200;
/** Characters of an answer: as a string in JSON it has less than MOST_ANSWER bytes. */
const MOST_TEXT = 750_000;

/**
 * The kinds that match, with what the rules in force decide about them. Costs an evaluation of the
 * rules for each kind of the answer, or of the inventory if the filter is by decisions.
 */
export async function nodeFlows(
  stateDir: string,
  config: Config,
  filter: FlowFilter,
  { inventory, node, look }: FlowSource,
): Promise<NodeFlows> {
  const liveAt = await look();
  const saved = await readStateIfAny(stateDir);
  const state = saved === null ? null : await withNames(saved, stateDir);
  const explain = state === null ? null : explainMany(state, config);
  const kinds = inventory
    .kinds()
    .filter(filter.matches)
    .sort((a, b) => b.lastSeen - a.lastSeen || (a.key < b.key ? -1 : 1));
  const flows: NodeFlow[] = [];
  let length = 0;
  let isCut = false;
  for (const [i, kind] of kinds.entries()) {
    if (i % AT_ONCE === AT_ONCE - 1) await yielded();
    const flow = toNodeFlow(kind, config, explain);
    if (!isWanted(flow, filter)) continue;
    length += JSON.stringify(flow).length;
    isCut = flows.length >= filter.most || length > MOST_TEXT;
    if (isCut) break;
    flows.push(flow);
  }
  return {
    node,
    since: timeText(inventory.since),
    liveAt: liveAt === null ? null : timeText(liveAt),
    flows,
    isCut,
    kinds: inventory.size,
    missed: inventory.missed,
  };
}

function isWanted({ verdict, decision }: NodeFlow, { policy, isDenied }: FlowFilter): boolean {
  if (policy !== null && decision?.policy !== policy) return false;
  return !isDenied || verdict !== 'Allow' || (decision !== null && decision.verdict !== 'Allow');
}

function toNodeFlow(kind: FlowKind, config: Config, explain: Explainer | null): NodeFlow {
  const { last, fold, peer, connections, live, firstSeen, lastSeen } = kind;
  const { direction, traffic, protocol, port, type, code, group, verdict } = last;
  const isOwn = fold.ports === 'own';
  return {
    ...{ direction, traffic, peer, protocol: protocolName(protocol) },
    ...(isOwn && port !== null ? { port } : {}),
    ...(isOwn && type !== null ? { icmpType: type } : {}),
    ...(isOwn && code !== null ? { icmpCode: code } : {}),
    ...(isOwn ? {} : { allPorts: true }),
    ...(group === 0 ? {} : { interfaceGroup: groupName(config, group) ?? group }),
    ...{ verdict, connections, live, firstSeen: timeText(firstSeen), lastSeen: timeText(lastSeen) },
    ...(isOwn && fold.peers === 'address'
      ? {}
      : { example: { peer: last.peer, ...(port === null ? {} : { port }) } }),
    decision: explain === null ? null : explain(toFlow(kind)),
  };
}

function timeText(milliseconds: number): string {
  return `${new Date(milliseconds).toISOString().slice(0, 19)}Z`;
}
