import { setImmediate as yielded } from 'node:timers/promises';
import type { NodeState } from '../../apis/compiled.ts';
import type { Config, FailsafeEntry } from '../../apis/config.ts';
import type { Flow, NodeExplanation } from '../../apis/flow.ts';
import { fixedNames, nameResolver } from '../../apis/names.ts';
import type { NodeFlow, NodeFlows } from '../../apis/node-flows.ts';
import type { PlatformEntry } from '../../apis/platform.ts';
import { utcText } from '../../lib/process/clock.ts';
import type { FlowSource } from '../flows/flow-inventory.ts';
import { type FlowFilter, type FlowKind, flowOfKind } from '../flows/flow-kind.ts';
import { groupName } from '../interfaces/classify.ts';
import { type Explainer, explain } from '../observe/explain.ts';
import { protocolName } from '../record/record.ts';
import { knownNames, readState, readStateIfAny } from './saved-state.ts';

/** Where the rules in force are known. */
export interface RulesInForce {
  readonly stateDir: string;
  readonly config: Config;
  /**
   * The agent's additions to the failsafe list of egress (NodeState.controlPlane); absent: nothing.
   */
  readonly controlPlane?: readonly FailsafeEntry[];
}

/**
 * Evaluates the rules in force, with the addresses of names as last saved. While a change is tried
 * (guarded apply), those are the last confirmed ones. Throws a CommandError if no rule was ever in
 * force.
 */
export async function explanationOf(
  { stateDir, config, controlPlane = [] }: RulesInForce,
  flow: Flow,
): Promise<NodeExplanation> {
  const state = await towards(await withNames(await readState(stateDir), stateDir), config, flow);
  const platform = await platformHere(config);
  return {
    node: state.node,
    explanation: explain({ ...state, controlPlane, platform }, config)(flow, { considered: true }),
  };
}

/** This machine needs these to carry pods; none where the kernel does not tell. */
async function platformHere(config: Config): Promise<PlatformEntry[]> {
  const { platformNow } = await import('../run/interface-groups.ts');
  return platformNow(config).catch(() => []);
}

/**
 * The state with the destinations that are routed to local pods, if the flow does not say by which
 * interface it leaves. Where the kernel does not tell them, it leaves by none of pods.
 */
async function towards(state: NodeState, config: Config, flow: Flow): Promise<NodeState> {
  if (flow.direction !== 'egress' || flow.interfaceGroup !== undefined) return state;
  // Loaded here, as most flows need nothing of the kernel.
  const { withInterfacesNow } = await import('../run/interface-groups.ts');
  return withInterfacesNow(state, config).catch(() => state);
}

/** The state with the addresses of names as last saved. */
async function withNames(state: NodeState, stateDir: string): Promise<NodeState> {
  const { names } = await knownNames(stateDir);
  const addresses = names.map(
    ({ name, addresses: known }) => [name, known.map(({ address }) => address)] as const,
  );
  return nameResolver()(state, fixedNames(new Map(addresses)));
}

/** Kinds that are evaluated without a pause. */
const AT_ONCE = 200;
/** Characters of an answer: as a string in JSON it has less than MOST_ANSWER bytes. */
const MOST_TEXT = 750_000;

/**
 * The kinds that match, with what the rules in force decide about them. Costs an evaluation of the
 * rules for each kind of the answer, or of the inventory if the filter is by decisions.
 *
 * Pages are in the order of the kinds' keys, which never change: what is seen, added or forgotten
 * between two pages moves no other kind.
 */
export async function nodeFlows(
  stateDir: string,
  config: Config,
  filter: FlowFilter,
  { inventory, node, read: look, lastRead: lookedAt, controlPlane = [] }: FlowSource,
): Promise<NodeFlows> {
  const { after } = filter;
  // Further pages belong to the first one's reading.
  const liveAt = after === null || after === '' ? await look() : lookedAt();
  const saved = await readStateIfAny(stateDir);
  const state = saved === null ? null : await withNames(saved, stateDir);
  const { explainMany } = await import('../observe/indexed-rules.ts');
  const platform = await platformHere(config);
  const explain = state === null ? null : explainMany({ ...state, controlPlane, platform }, config);
  const kinds = inventory
    .kinds()
    .filter((kind) => (after === null || kind.key > after) && filter.matches(kind))
    .sort(after === null ? (a, b) => b.lastSeen - a.lastSeen || byKey(a, b) : byKey);
  const flows: NodeFlow[] = [];
  let length = 0;
  let isCut = false;
  let last = '';
  for (const [i, kind] of kinds.entries()) {
    if (i % AT_ONCE === AT_ONCE - 1) await yielded();
    const flow = toNodeFlow(kind, config, explain);
    if (!isWanted(flow, filter)) continue;
    length += JSON.stringify(flow).length;
    isCut = flows.length >= filter.most || length > MOST_TEXT;
    if (isCut) break;
    flows.push(flow);
    last = kind.key;
  }
  return {
    node,
    since: utcText(inventory.windowStart(filter.now)),
    liveAt: liveAt === null ? null : utcText(liveAt),
    flows,
    isCut,
    ...(after !== null && isCut ? { continue: last } : {}),
    ...(controlPlane.length === 0 ? {} : { controlPlane }),
    ...(platform.length === 0 ? {} : { platform }),
    kinds: inventory.size,
    missed: inventory.missed,
  };
}

function byKey(a: FlowKind, b: FlowKind): number {
  return a.key < b.key ? -1 : 1;
}

function isWanted({ verdict, decision }: NodeFlow, { policy, isDenied }: FlowFilter): boolean {
  if (policy !== null && decision?.policy !== policy) return false;
  return !isDenied || verdict !== 'Allow' || (decision !== null && decision.verdict !== 'Allow');
}

function toNodeFlow(kind: FlowKind, config: Config, explain: Explainer | null): NodeFlow {
  const { last, fold, peer, connections, live, firstSeen, lastSeen } = kind;
  const { direction, traffic, protocol, port, type, code, group, verdict } = last;
  const isOwn = fold.ports === 'own';
  const flow = flowOfKind(kind);
  return {
    direction,
    traffic,
    peer,
    protocol: protocolName(protocol),
    ...(isOwn && port !== null ? { port } : {}),
    ...(isOwn && type !== null ? { icmpType: type } : {}),
    ...(isOwn && code !== null ? { icmpCode: code } : {}),
    ...(isOwn ? {} : { allPorts: true }),
    ...(group === 0 ? {} : { interfaceGroup: groupName(config, group) ?? group }),
    verdict,
    connections,
    live,
    firstSeen: utcText(firstSeen),
    lastSeen: utcText(lastSeen),
    flow,
    decision: explain === null ? null : explain(flow),
  };
}
