import type { NodeState } from '../../apis/compiled.ts';
import type { FailingRule } from '../../apis/stream.ts';
import { withControllers } from '../receive/controllers.ts';
import type { Folded } from '../receive/fold.ts';
import { type Seen, UNSEEN } from '../receive/outage.ts';
import type { Off } from './off-file.ts';

/** What the agent knew when it was started. */
export interface Beginning {
  /** False where this machine has the feature gate off, whatever the cluster says. */
  readonly isAllowed: boolean;
  /** The state that an earlier run enforced last; null: none. */
  readonly last: NodeState | null;
  /** The gate as an earlier run knew it; null: not at all. */
  readonly rememberedGate: boolean | null;
  /** `nodewall off`; null: this node is on. */
  readonly off: Off | null;
}

/** Why nothing is enforced. */
export type Why = 'machine' | 'off' | 'gate';

/** A state to enforce, and what it was made of. */
export interface Target {
  readonly of: NodeState;
  readonly seen: Seen;
  readonly state: NodeState;
}

/** What the kernel enforces. */
export interface InForce {
  /** As it was submitted. */
  readonly state: NodeState;
  /** The state that it was made of. */
  readonly of: NodeState;
  /** The controller's revision of `of`; null: it is not known. */
  readonly revision: string | null;
}

/** All that the agent of a cluster knows. Only a transition makes another. */
export interface AgentState extends Beginning {
  readonly phase: 'starting' | 'running' | 'stopping';
  /** The controller's view as of the last bookmark. */
  readonly folded: Folded | null;
  /** What the API server says while no controller answers. */
  readonly seen: Seen;
  /** The connection to the controller is lost, and no bookmark came since. */
  readonly isAway: boolean;
  /** Why the controller's view cannot be followed. */
  readonly viewError: string | null;
  /** The controller was not heard in time: what was enforced last is wanted. */
  readonly isLastUsed: boolean;
  /** `nodewall on` came while no controller answered, and the agent waits for what it says. */
  readonly isWaiting: boolean;
  /** An enforcement runs. */
  readonly isEnforcing: boolean;
  /**
   * The control plane moved since the running enforcement, or the one before, took its failsafe
   * list.
   */
  readonly isStale: boolean;
  /** Why the kernel holds nothing of ours; null: it holds something, or nobody looked. */
  readonly without: Why | null;
  /** The running enforcement got it last. */
  readonly submitted: Target | null;
  readonly inForce: InForce | null;
  /** Policies in force. */
  readonly policies: number;
  readonly failing: readonly FailingRule[];
  /** The gate, as it is reported. */
  readonly enabled: boolean;
}

/** Before the first event. */
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
    isEnforcing: false,
    isStale: false,
    without: null,
    submitted: null,
    inForce: null,
    policies: 0,
    failing: [],
    enabled: false,
  };
}

/** The feature gate of the cluster; null: nobody said it yet. */
export function gateOf({ seen, folded, rememberedGate }: AgentState): boolean | null {
  return seen.gate ?? folded?.enabled ?? rememberedGate;
}

/** Why nothing is to be enforced; null: nobody forbids it. */
export function whyNone(state: AgentState): Why | null {
  if (!state.isAllowed) return 'machine';
  if (state.off !== null || state.isWaiting) return 'off';
  return gateOf(state) === false ? 'gate' : null;
}

/** One piece of the work that makes the kernel hold what is wanted. */
export type Step =
  /** Ends the enforcement; its rules stay. */
  | { readonly kind: 'stop' }
  /** Starts an enforcement. */
  | { readonly kind: 'start' }
  | { readonly kind: 'enforce'; readonly target: Target }
  /** Removes all of ours from the kernel. */
  | { readonly kind: 'clear'; readonly why: Why };

const STOP: Step = { kind: 'stop' };
const START: Step = { kind: 'start' };

/** The work from what is to what is wanted, in order. Empty: nothing is wanted, or all is done. */
export function nextSteps(state: AgentState): readonly Step[] {
  const why = whyNone(state);
  if (why !== null) return state.without === why ? [] : [STOP, { kind: 'clear', why }];
  const target = wantedTarget(state);
  if (target === null) return [];
  const { isEnforcing, isStale } = state;
  const restart = isStale ? [STOP, START] : [];
  const before = isEnforcing ? restart : [START];
  return [...before, { kind: 'enforce', target }];
}

/**
 * Null: nobody knows yet what is wanted, and what is in force stays. Without news it is the same
 * object.
 */
function wantedTarget({ folded, isLastUsed, seen, last, submitted }: AgentState): Target | null {
  const isLast = isLastUsed || seen.gate === true;
  const of = folded?.state ?? (isLast ? last : null);
  if (of === null) return null;
  if (submitted?.of === of && submitted.seen === seen) return submitted;
  return { of, seen, state: seen.controllers === null ? of : withControllers(of, seen.controllers) };
}
