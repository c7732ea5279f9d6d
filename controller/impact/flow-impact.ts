import type { NodeState } from '../../apis/compiled.ts';
import type { Flow, FlowAnswer } from '../../apis/flow.ts';
import { fixedNames, nameResolver } from '../../apis/names.ts';
import { isFolded, type Missed, type NodeFlow, type NodeFlows } from '../../apis/node-flows.ts';
import type { UnansweredNode } from '../../apis/node-question.ts';
import { present } from '../../lib/sharing/present.ts';
import { type DiffSide, ownersOf } from '../difference/row-text.ts';
import { nodeViewer } from '../publish/node-view.ts';

/** Evaluates a state's rules, as `explain` does; called once for each of many flows. */
export type Evaluate = (state: NodeState) => (flow: Flow) => FlowAnswer;

/** The flows that a node has seen. */
export interface SeenByNode {
  /** All kinds of its inventory. */
  readonly flows: NodeFlows;
  /** Addresses of fqdn peers, as the node knows them, by name. */
  readonly names: ReadonlyMap<string, readonly string[]>;
}

/** The effect of a change on the flows of nodes. */
export interface FoundImpact {
  /** Sorted. */
  readonly nodes: readonly NodeImpact[];
  /** Nodes whose rules the change touches, and that did not answer, with the reason. */
  readonly failed: readonly UnansweredNode[];
  /** Nodes whose rules it does not touch: they were not asked. */
  readonly untouched: number;
}

/** The effect of a change on the kinds of flows of a node. */
export interface NodeImpact {
  readonly node: string;
  /** Since when the node's inventory sees flows, and when live connections were counted. */
  readonly since: string;
  readonly liveAt: string | null;
  /** Allowed before the change, and denied after it; most connections in an hour first. */
  readonly denied: readonly ChangedFlow[];
  /** Denied before, and allowed after. */
  readonly allowed: readonly ChangedFlow[];
  /** Allowed before and after, but a rule in mode Audit of the change would deny them. */
  readonly audited: readonly ChangedFlow[];
  /** Kinds that were evaluated, and those of them of which one flow stands for many. */
  readonly kinds: number;
  readonly folded: number;
  /** Kinds about which the rules in force on the node decide otherwise than the objects before. */
  readonly otherwise: readonly ChangedFlow[];
  /** Fqdn peers of changed rules for which the node knows no address: they match nothing here. */
  readonly unknownNames: readonly string[];
  readonly missed: Readonly<Missed>;
}

/** A kind of flows, with what decides before and after the change. */
export interface ChangedFlow extends Omit<NodeFlow, 'decision'> {
  /** Which Node or Pod has the address; absent: none. */
  readonly peerName?: string;
  readonly before: FlowAnswer;
  readonly after: FlowAnswer;
  /** Connections that began in an hour, since the kind was first seen; of an hour at least. */
  readonly perHour: number;
  /** One flow of many was evaluated: others of the kind may be decided otherwise. */
  readonly isPartly: boolean;
  /** Whether the agent ends live connections (`established: Recheck`); else they go on. */
  readonly endsLive: boolean;
}

const HOUR = 3_600_000;

/**
 * The effect of a change of objects on the flows that nodes have seen. Evaluates each kind by the
 * rules before and after, with the engine of `explain`.
 */
export class FlowImpact {
  readonly #before: DiffSide;
  readonly #after: DiffSide;
  readonly #evaluate: Evaluate;
  readonly #owners: ReadonlyMap<string, string>;

  /**
   * Both states must be made by one compiler (see `compiler`), which shares what did not change.
   */
  constructor(before: DiffSide, after: DiffSide, evaluate: Evaluate) {
    this.#before = before;
    this.#after = after;
    this.#evaluate = evaluate;
    this.#owners = new Map([after, before].flatMap(({ objects }) => [...ownersOf(objects)]));
  }

  /** The nodes whose rules the change touches, sorted, of those that are there before and after. */
  concerned(): string[] {
    const names = [...this.#before.compiled.nodeAddresses.keys()];
    return names
      .filter((name) => this.#after.compiled.nodeAddresses.has(name) && this.#states(name).isChanged)
      .sort();
  }

  /**
   * Throws a TypeError if an answer has a flow that is none. Costs two evaluations for each kind.
   */
  of({ flows: seen, names }: SeenByNode): NodeImpact {
    const { node, since, liveAt, flows, missed, controlPlane = [], platform } = seen;
    const states = this.#states(node);
    const resolve = nameResolver();
    const table = fixedNames(names);
    const unknown = new Set<string>();
    const [before, after] = [states.before, states.after].map((state) => {
      for (const set of state.addressSets.values())
        for (const name of set.names) if (table.addresses(name).length === 0) unknown.add(name);
      return this.#evaluate({ ...resolve(state, table), controlPlane, ...present({ platform }) });
    }) as [(flow: Flow) => FlowAnswer, (flow: Flow) => FlowAnswer];
    const lists = { denied: [], allowed: [], audited: [], otherwise: [] } as Record<Change, ChangedFlow[]>;
    const toChanged = this.#changedFlows(states.after, Date.parse(liveAt ?? newest(flows) ?? since));
    for (const one of flows) {
      const [was, is] = [before(one.flow), after(one.flow)];
      for (const change of changesOf(was, is, one.decision)) lists[change].push(toChanged(one, was, is));
    }
    for (const list of Object.values(lists)) list.sort((a, b) => b.perHour - a.perHour);
    return {
      node,
      since,
      liveAt,
      ...lists,
      kinds: flows.length,
      folded: flows.filter(isFolded).length,
      unknownNames: [...unknown].sort(),
      missed,
    };
  }

  /** @param asked when the node answered, in milliseconds since 1970 */
  #changedFlows(
    state: NodeState,
    asked: number,
  ): (one: NodeFlow, before: FlowAnswer, after: FlowAnswer) => ChangedFlow {
    const rechecks = recheckingRules(state);
    return ({ decision, ...kind }, before, after) => {
      const peerName = this.#owners.get(kind.peer);
      return {
        ...kind,
        ...present({ peerName }),
        before,
        after,
        isPartly: isFolded(kind),
        perHour: kind.connections / Math.max(1, (asked - Date.parse(kind.firstSeen)) / HOUR),
        endsLive: rechecks.has(ruleKey(kind.flow.direction, after)),
      };
    };
  }

  /** `isChanged`: whether any rule, address or service of the node differs. */
  #states(node: string): { before: NodeState; after: NodeState; isChanged: boolean } {
    const view = nodeViewer(node);
    const before = view(this.#before.compiled);
    const after = view(this.#after.compiled);
    return { before, after, isChanged: before !== after };
  }
}

type Change = 'denied' | 'allowed' | 'audited' | 'otherwise';

/** `inForce`: what the rules in force on the node decide; null: there are none. */
function changesOf(before: FlowAnswer, after: FlowAnswer, inForce: FlowAnswer | null): Change[] {
  const changes: Change[] = [];
  const [was, is] = [isAllowed(before), isAllowed(after)];
  if (was && !is) changes.push('denied');
  if (!was && is) changes.push('allowed');
  if (was && is && auditDenial(after) !== undefined && auditDenial(before) === undefined)
    changes.push('audited');
  if (inForce !== null && inForce.verdict !== before.verdict) changes.push('otherwise');
  return changes;
}

function isAllowed({ verdict }: FlowAnswer): boolean {
  return verdict === 'Allow';
}

/** The first rule in mode Audit that is no Pass, if it would deny the flow. */
export function auditDenial({
  audited = [],
}: FlowAnswer): NonNullable<FlowAnswer['audited']>[number] | undefined {
  const first = audited.find(({ action }) => action !== 'Pass');
  return first?.action === 'Allow' ? undefined : first;
}

function recheckingRules({ rules }: NodeState): ReadonlySet<string> {
  const keys = rules
    .filter(({ source }) => source.established === 'Recheck')
    .map(({ source }) => ruleKey(source.direction, source));
  return new Set(keys);
}

function ruleKey(
  direction: Flow['direction'],
  { policy, rule }: { readonly policy: string | null; readonly rule: string | null },
): string {
  return `${direction} ${policy} ${rule}`;
}

function newest(flows: readonly NodeFlow[]): string | undefined {
  return flows
    .map(({ lastSeen }) => lastSeen)
    .toSorted()
    .at(-1);
}
