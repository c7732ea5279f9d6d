import type { NodeState } from '../../apis/compiled.ts';
import type { FailsafeEntry } from '../../apis/config.ts';
import type { FailingRule } from '../../apis/node-report.ts';
import type { GateValue } from '../../apis/stream.ts';
import { shortHash } from '../../lib/sharing/hash.ts';
import { policyKey, substitute, type Wanted } from '../apply/envelope.ts';
import type { PolicyId } from '../receive/api-server.ts';
import { withControllers } from '../receive/destinations.ts';
import type { Folded } from '../receive/fold.ts';
import { type OutageState, UNSEEN } from '../receive/outage.ts';
import type { Off } from './off-file.ts';

/** The agent's knowledge at its start. */
export interface Beginning {
  /** False if the feature gate is off on this machine, whatever the cluster's gate is. */
  readonly isAllowed: boolean;
  /** The state that an earlier run enforced last; null: none. */
  readonly last: NodeState | null;
  /**
   * The gate that this node followed last, in an earlier run or before the gate was unset; null:
   * none.
   */
  readonly rememberedGate: boolean | null;
  /** Set by `nodewall off`; null: this node is on. */
  readonly off: Off | null;
  /**
   * The node's place among all, from 0 to 1, when they switch off one by one. Absent: the first.
   */
  readonly place?: number;
}

/** The reason why nothing is enforced. */
export type Why = 'machine' | 'off' | 'gate';

/** A state to enforce, and the parts it was made from. */
export interface EnforcementTarget extends Wanted {
  readonly seen: OutageState;
  readonly places: readonly FailsafeEntry[];
}

/** The complete state of the agent of a cluster. Only a transition makes a new one. */
export interface AgentState extends Beginning {
  readonly phase: 'starting' | 'running' | 'stopping';
  /** The controller's view as of the last bookmark. */
  readonly folded: Folded | null;
  /** State read from the API server while no controller answers. */
  readonly seen: OutageState;
  /** The connection to the controller was lost, and no bookmark has arrived since. */
  readonly isAway: boolean;
  /** The reason why the controller's view can't be folded; null: it can. */
  readonly viewError: string | null;
  /** No bookmark arrived in time: the state enforced last is wanted. */
  readonly isLastUsed: boolean;
  /**
   * `nodewall on` was given while no controller answered, and the agent waits for the controller's
   * view.
   */
  readonly isWaiting: boolean;
  /** The gate was turned off, and this node goes on until its turn. */
  readonly isSwitchingOff: boolean;
  /** An enforcement runs. */
  readonly isEnforcing: boolean;
  /** The control plane as this agent reaches it, for the failsafe list. */
  readonly places: readonly FailsafeEntry[];
  /** The reason why the kernel has been cleared; null: it holds rules, or was not looked at. */
  readonly without: Why | null;
  /** The target last submitted to the running enforcement. */
  readonly submitted: EnforcementTarget | null;
  /** As what the state in the kernel was wanted; null: nothing is in force. */
  readonly inForce: Wanted | null;
  /** The number of policies in force. */
  readonly policies: number;
  readonly failing: readonly FailingRule[];
  /** The gate, as it is reported. */
  readonly enabled: boolean;
}

/** The state before the first event. */
export function initialState(beginning: Beginning): AgentState {
  return {
    ...beginning,
    phase: 'starting',
    folded: null,
    seen: UNSEEN,
    isAway: false,
    viewError: null,
    isLastUsed: false,
    isWaiting: false,
    isSwitchingOff: false,
    isEnforcing: false,
    places: [],
    without: null,
    submitted: null,
    inForce: null,
    policies: 0,
    failing: [],
    enabled: false,
  };
}

/** The cluster's feature gate as it was said last; null: not yet. */
export function saidGate({ seen, folded }: AgentState): GateValue | null {
  return seen.gate ?? folded?.enabled ?? null;
}

/**
 * The gate that counts here; null: not known yet. Where it is unset, that is the one followed
 * before.
 */
export function gateOf(state: AgentState): boolean | null {
  const said = saidGate(state);
  return said === null || said === 'unset' ? state.rememberedGate : said;
}

/** The gate as this node follows it. */
export function followedGate(state: AgentState): boolean | null {
  return state.isSwitchingOff ? true : gateOf(state);
}

/** The reason why nothing may be enforced; null: there is none. */
export function whyNone(state: AgentState): Why | null {
  if (!state.isAllowed) return 'machine';
  if (state.off !== null || state.isWaiting) return 'off';
  return followedGate(state) === false ? 'gate' : null;
}

/** The controller may have given the same state a later revision since it was submitted. */
export function revisionInForce(
  { inForce, folded }: Pick<AgentState, 'inForce' | 'folded'>,
  { received, revision }: Omit<Wanted, 'wanted'>,
): string | null {
  if (inForce?.received === received) return inForce.revision;
  return folded?.state === received ? folded.revision : revision;
}

/** One step of the work that makes the kernel hold the wanted state. */
export type Step =
  /** Ends the enforcement; its rules stay. */
  | { readonly kind: 'stop' }
  /** Starts an enforcement. */
  | { readonly kind: 'start' }
  | { readonly kind: 'enforce'; readonly target: EnforcementTarget }
  /** Removes all of nodewall's rules from the kernel. */
  | { readonly kind: 'clear'; readonly why: Why };

const STOP: Step = { kind: 'stop' };
const START: Step = { kind: 'start' };

/**
 * The steps from the current state to the wanted one, in order. Empty: no state is wanted, the work
 * is done, or the agent is stopping.
 */
export function nextSteps(state: AgentState): readonly Step[] {
  if (state.phase === 'stopping') return [];
  const why = whyNone(state);
  if (why !== null) return state.without === why ? [] : [STOP, { kind: 'clear', why }];
  const target = wantedTarget(state);
  if (target === null) return [];
  const enforce = { kind: 'enforce', target } as const;
  return state.isEnforcing ? [enforce] : [START, enforce];
}

/**
 * Null: the wanted state isn't known yet, and the rules in force stay. Returns the same object if
 * nothing changed.
 */
function wantedTarget({
  folded,
  isLastUsed,
  seen,
  places,
  last,
  submitted,
}: AgentState): EnforcementTarget | null {
  const isLast = isLastUsed || seen.gate === true;
  const received = folded?.state ?? (isLast ? last : null);
  if (received === null) return null;
  if (submitted?.received === received && submitted.seen === seen && submitted.places === places)
    return submitted;
  const left = seen.deleted === null ? received : withoutDeleted(received, seen.deleted);
  const state = seen.controllers === null ? left : withControllers(left, seen.controllers);
  const wanted = places.length === 0 ? state : { ...state, controlPlane: places };
  return { wanted, received, revision: folded?.revision ?? null, seen, places };
}

/** The policies that the state has rules of. */
export function policiesOf(state: NodeState | null): readonly PolicyId[] {
  const found = new Map<string, PolicyId>();
  for (const { source } of state?.rules ?? []) {
    const { apiGroup, policy, uid } = source;
    if (uid !== '') found.set(uid, { apiGroup, policy, uid });
  }
  return [...found.values()];
}

/** The state without the rules of policies that exist no more; the same object if it has none. */
function withoutDeleted(state: NodeState, deleted: readonly PolicyId[]): NodeState {
  const uids = new Set(deleted.map(({ uid }) => uid));
  const keys = new Set(state.rules.filter(({ source }) => uids.has(source.uid)).map(policyKey));
  return [...keys].reduce((rest, key) => substitute(rest, key, null), state);
}

/** The meaning of a new state for this node's turn to switch off. */
type Turn =
  /** Nothing changes: there is no turn to wait for, or it is waited for already. */
  | { readonly kind: 'same' }
  /** The gate was turned off for all nodes; this one follows after so many milliseconds. */
  | { readonly kind: 'wait'; readonly milliseconds: number }
  /** It was turned on again, or off at once. */
  | { readonly kind: 'end'; readonly isOff: boolean };

const SAME: Turn = { kind: 'same' };

/**
 * Nodes follow a gate that is turned off one by one, over the time that the controller says, so
 * that a mistake can be taken back before it is everywhere. An agent that was told by the API
 * server, since no controller answers, follows at once: that may be the way back in.
 */
export function switchOffTurn(before: AgentState, now: AgentState): Turn {
  const isOff = gateOf(now) === false;
  const over = now.seen.gate === null ? (now.folded?.over ?? 0) : 0;
  if (before.isSwitchingOff) {
    if (!isOff) return { kind: 'end', isOff };
    return now.seen.gate === null && over === 0 ? { kind: 'end', isOff } : SAME;
  }
  if (!isOff || over === 0 || gateOf(before) !== true) return SAME;
  return { kind: 'wait', milliseconds: Math.round((now.place ?? 0) * over * 1000) };
}

/** The node's place among all, from 0 to 1, the same each time. */
export function placeAmongNodes(node: string): number {
  return Number.parseInt(shortHash(8, node), 16) / 2 ** 32;
}

/**
 * Where the gate has no value, this node keeps what it has: the gate that it followed last. If it
 * does not know one, it has rules, or had some at the end of an earlier run; or it is new.
 */
export function keptIfUnset(
  before: AgentState,
  now: AgentState,
): { readonly state: AgentState; readonly message: string | null } {
  if (saidGate(now) !== 'unset') return { state: now, message: null };
  const enforces = followedGate(before) ?? (before.enabled || before.last !== null);
  const state = { ...now, rememberedGate: enforces };
  if (saidGate(before) === 'unset') return { state, message: null };
  const message = enforces
    ? 'the feature gate has no value: this node goes on enforcing'
    : 'the feature gate has no value: this node enforces nothing, as before';
  return { state, message };
}
