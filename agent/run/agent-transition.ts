import { isDeepStrictEqual } from 'node:util';
import type { FailsafeEntry } from '../../apis/config.ts';
import type { Endpoints } from '../../apis/stream.ts';
import type { Enforced } from '../apply/enforcer.ts';
import { policyKey } from '../apply/envelope.ts';
import type { ExtensionPart } from '../extension/extension.ts';
import { controllersOf } from '../receive/destinations.ts';
import type { Folded } from '../receive/fold.ts';
import { mergedSeen, newlyDeleted, type OutageState, UNSEEN } from '../receive/outage.ts';
import {
  type AgentState,
  type EnforcementTarget,
  followedGate,
  gateOf,
  keptIfUnset,
  revisionInForce,
  saidGate,
  switchOffTurn,
  type Why,
  whyNone,
} from './agent-state.ts';
import { allFailing, failingRules } from './node-report.ts';
import type { Off } from './off-file.ts';

/** An event that the agent reacts to. */
export type AgentEvent =
  /**
   * Setup is complete. `holdsRules`: the kernel holds rules of an earlier run. `areTried`: they may
   * be those of a change that was not confirmed.
   */
  | { readonly kind: 'started'; readonly holdsRules: boolean; readonly areTried: boolean }
  /** `nodewall off`, or `nodewall on` (null). */
  | { readonly kind: 'switched'; readonly off: Off | null }
  /** The controller answered. */
  | { readonly kind: 'connected' }
  /** No controller answers. */
  | { readonly kind: 'disconnected' }
  /** The controller answers, but its view can't be folded. */
  | { readonly kind: 'unfollowable'; readonly reason: string }
  /** A bookmark of the controller's view. */
  | { readonly kind: 'folded'; readonly folded: Folded }
  /** The API server answered while no controller did. */
  | { readonly kind: 'seen'; readonly seen: OutageState }
  /** The control plane's addresses are known, or changed. */
  | { readonly kind: 'moved'; readonly places: readonly FailsafeEntry[] }
  | { readonly kind: 'timer'; readonly timer: TimerName }
  /** Step `stop` is done. */
  | { readonly kind: 'stopped' }
  /** Step `start` is done. */
  | { readonly kind: 'enforcing' }
  /** Step `enforce` runs. */
  | { readonly kind: 'wanted'; readonly target: EnforcementTarget }
  /** Step `clear` is done. */
  | {
      readonly kind: 'cleared';
      readonly why: Why;
      readonly removed: readonly string[];
      readonly interfaces: readonly string[];
    }
  /** A step failed. */
  | { readonly kind: 'workFailed' }
  /** The submitted state is in force, or what of it can be. */
  | { readonly kind: 'enforced'; readonly result: Pick<Enforced, 'resolved' | 'envelope' | 'failed'> }
  /** The dataplane could apply nothing. */
  | { readonly kind: 'refused'; readonly error: Error }
  | { readonly kind: 'stopping' };

export type TimerName = 'patience' | 'comeBack' | 'retry' | 'switchOff';

/** The agent's reactions to an event, in order. */
export type AgentEffect =
  /** Adds one turn of work, which computes its steps when it begins. */
  | { readonly kind: 'work' }
  /** Saves what the next start needs. */
  | { readonly kind: 'remember' }
  | { readonly kind: 'report'; readonly isSoon: boolean }
  /** Starts or stops polling the API server. */
  | { readonly kind: 'askApiServer'; readonly isOn: boolean }
  /** The path to the controller may be free: tries again at once. */
  | { readonly kind: 'retryController' }
  /** Puts these endpoints of the API server on the failsafe list. */
  | { readonly kind: 'endpoints'; readonly endpoints: readonly Endpoints[] }
  | { readonly kind: 'submit'; readonly target: EnforcementTarget }
  /** Starts or restarts the timer. */
  | { readonly kind: 'arm'; readonly timer: TimerName; readonly milliseconds: number }
  | { readonly kind: 'disarm'; readonly timer: TimerName }
  /** Sets the metric of the revision in force. */
  | { readonly kind: 'showRevision'; readonly revision: string | null }
  /** Sets the metrics of the gate and of `nodewall off`. */
  | { readonly kind: 'showGate'; readonly enabled: boolean; readonly isOff: boolean }
  | { readonly kind: 'say'; readonly message: string; readonly fields: object };

interface Transition {
  readonly state: AgentState;
  readonly effects: readonly AgentEffect[];
}

/**
 * The time that an agent which finds rules in force waits for the controller (milliseconds). After
 * it the state enforced last is enforced.
 */
const PATIENCE = 10_000;
/**
 * The time that `nodewall on` waits for a controller (milliseconds): several attempts, each of
 * which may take 15 s and wait 10 s for the next. The state enforced last may have locked this node
 * out. Without those rules the node can receive the current policies; until then nothing is
 * enforced.
 */
const COME_BACK_PATIENCE = 60_000;
/** Wait before a failed step is tried again (milliseconds). The enforcer retries by itself. */
const RETRY = 10_000;

/** The reasons why nothing is enforced, as the log has them. */
const GATES: Readonly<Record<Why, string>> = {
  machine: 'NodeNetworkPolicy off on this machine',
  gate: 'NodeNetworkPolicy off in the cluster',
  off: 'nodewall off',
};

const UNSET = 'NodeNetworkPolicy without a value in the cluster, and this node had none in force';

const WORK: AgentEffect = { kind: 'work' };
const RETRY_CONTROLLER: AgentEffect = { kind: 'retryController' };
const REMEMBER: AgentEffect = { kind: 'remember' };
const REPORT_SOON: AgentEffect = { kind: 'report', isSoon: true };
const ASK: AgentEffect = { kind: 'askApiServer', isOn: true };
const ASK_NO_LONGER: AgentEffect = { kind: 'askApiServer', isOn: false };
const END_WAIT: AgentEffect = { kind: 'disarm', timer: 'comeBack' };

/** Pure: the same state and event give the same transition. */
export function transition(state: AgentState, event: AgentEvent): Transition {
  // Work in progress ends, and nothing new begins: its owner may be closed already.
  if (state.phase === 'stopping' && !ENDS.has(event.kind)) return { state, effects: [] };
  switch (event.kind) {
    case 'started':
      return started(state, event);
    case 'switched':
      return switched(state, event.off);
    case 'connected':
      return { state, effects: [ASK_NO_LONGER, REPORT_SOON] };
    case 'disconnected':
      return { state: { ...state, isAway: true }, effects: [ASK, REMEMBER] };
    case 'unfollowable':
      return { state: { ...state, viewError: event.reason }, effects: [REPORT_SOON] };
    case 'folded':
      return inTurn(state, folded(state, event.folded));
    case 'seen':
      return inTurn(state, seen(state, event.seen));
    case 'moved':
      return moved(state, event);
    case 'timer':
      return timeIsUp(state, event.timer);
    case 'stopped':
      return { state: { ...state, isEnforcing: false, submitted: null }, effects: [] };
    case 'enforcing':
      return { state: { ...state, isEnforcing: true }, effects: [] };
    case 'wanted':
      return wanted(state, event.target);
    case 'cleared':
      return cleared(state, event);
    case 'workFailed':
      return workFailed(state);
    case 'enforced':
      return enforced(state, event);
    case 'refused':
      return refused(state, event.error);
    case 'stopping':
      return stopping(state);
  }
}

/** The ends of what was in progress when the agent began to stop. */
const ENDS: ReadonlySet<AgentEvent['kind']> = new Set([
  'stopped',
  'enforcing',
  'cleared',
  'enforced',
  'refused',
]);

type EventOf<K extends AgentEvent['kind']> = Extract<AgentEvent, { kind: K }>;

function started(before: AgentState, { holdsRules, areTried }: EventOf<'started'>): Transition {
  // Rules in the kernel count as enforced while the controller's view is being received, tried ones
  // too: else it would give this node's floating addresses away.
  const enabled = holdsRules && whyNone(before) === null;
  const state: AgentState = { ...before, phase: 'running', enabled };
  // If this machine, `nodewall off` or the saved gate disables enforcement, no controller is
  // needed.
  const decided = whyNone(state) === null ? [] : [WORK];
  // Rules that are in the kernel are as good as the saved state, unless they were never confirmed.
  const last = holdsRules && !areTried ? { state, effects: [] } : useLast(state);
  const patience: AgentEffect = { kind: 'arm', timer: 'patience', milliseconds: PATIENCE };
  return { state: last.state, effects: [...decided, ASK, ...last.effects, patience] };
}

/** No bookmark arrived in time: the state enforced last is wanted until one does. */
function useLast(state: AgentState): Transition {
  const { folded, isAllowed, last, off } = state;
  if (folded !== null || !isAllowed || followedGate(state) === false) return { state, effects: [] };
  const next = { ...state, isLastUsed: true };
  if (last === null) return { state: next, effects: [] };
  const line: AgentEffect = {
    kind: 'say',
    message: 'enforcing the saved state until the controller answers',
    fields: { rules: last.rules.length },
  };
  return { state: next, effects: off === null ? [line, WORK] : [WORK] };
}

function switched(before: AgentState, off: Off | null): Transition {
  const state = { ...before, off, isWaiting: false };
  if (state.phase === 'starting') return { state, effects: [] };
  const effects = before.isWaiting ? [REPORT_SOON, END_WAIT] : [REPORT_SOON];
  const isHeard = state.folded !== null && !state.isAway;
  if (off !== null || isHeard) return { state, effects: [...effects, WORK] };
  const line: AgentEffect = {
    kind: 'say',
    message: 'nothing is enforced until the controller answers; after this time the saved state is',
    fields: { seconds: COME_BACK_PATIENCE / 1000 },
  };
  const wait: AgentEffect = { kind: 'arm', timer: 'comeBack', milliseconds: COME_BACK_PATIENCE };
  return {
    state: { ...state, isWaiting: true },
    effects: [...effects, line, wait, RETRY_CONTROLLER],
  };
}

/** From now on only the controller's view counts. */
function folded(before: AgentState, now: Folded): Transition {
  const { inForce, isWaiting, isAway } = before;
  const isOfIt = inForce?.received === now.state;
  const state: AgentState = {
    ...before,
    folded: now,
    seen: UNSEEN,
    viewError: null,
    isAway: false,
    isWaiting: false,
    inForce: isOfIt ? { ...inForce, revision: now.revision } : inForce,
  };
  const isNews =
    before.folded?.state !== now.state || before.folded.enabled !== now.enabled || before.seen !== UNSEEN;
  const isToRemember = isAway || before.folded?.enabled !== now.enabled;
  const effects: AgentEffect[] = [
    ASK_NO_LONGER,
    { kind: 'showRevision', revision: state.inForce?.revision ?? null },
    ...(isToRemember ? [REMEMBER] : []),
    { kind: 'endpoints', endpoints: now.endpoints },
    { kind: 'report', isSoon: before.folded === null },
    ...(isWaiting ? [END_WAIT] : []),
    ...(isWaiting || isNews ? [WORK] : []),
  ];
  const unset = kept(before, state);
  return { state: unset.state, effects: [...unset.effects, ...effects] };
}

function seen(before: AgentState, now: OutageState): Transition {
  const { state, effects } = kept(before, { ...before, seen: mergedSeen(before.seen, now) });
  const policies = newlyDeleted(before.seen, state.seen);
  const message = 'no controller answers, and the API server has policies no more; their rules are removed';
  const line: AgentEffect = { kind: 'say', message, fields: { policies } };
  const known = controllersOf(before.folded?.state ?? before.last, before.seen.controllers);
  const isElsewhere = state.seen.controllers?.some((one) => !known.includes(one)) === true;
  return {
    state,
    effects: [
      ...effects,
      ...(policies.length > 0 ? [line] : []),
      REMEMBER,
      WORK,
      ...(isElsewhere ? [RETRY_CONTROLLER] : []),
    ],
  };
}

/** With what this node keeps where the gate has no value. */
function kept(before: AgentState, now: AgentState): Transition {
  const { state, message } = keptIfUnset(before, now);
  return { state, effects: message === null ? [] : [{ kind: 'say', message, fields: {} }] };
}

/** With what a gate that was turned off, or on again, means for this node's turn. */
function inTurn(before: AgentState, { state, effects }: Transition): Transition {
  const turn = switchOffTurn(before, state);
  switch (turn.kind) {
    case 'same':
      return { state, effects };
    case 'wait': {
      const { milliseconds } = turn;
      const line: AgentEffect = {
        kind: 'say',
        message: 'the feature gate was turned off for all nodes, which follow one by one; this one waits',
        fields: { seconds: Math.ceil(milliseconds / 1000) },
      };
      const arm: AgentEffect = { kind: 'arm', timer: 'switchOff', milliseconds };
      return { state: { ...state, isSwitchingOff: true }, effects: [line, arm, ...effects] };
    }
    case 'end': {
      const message = turn.isOff
        ? 'the feature gate was turned off for all nodes at once'
        : `the feature gate ${saidGate(state) === 'unset' ? 'has no value any more' : 'is on again'} before this node has followed`;
      const line: AgentEffect = { kind: 'say', message, fields: {} };
      const disarm: AgentEffect = { kind: 'disarm', timer: 'switchOff' };
      return { state: { ...state, isSwitchingOff: false }, effects: [line, disarm, ...effects, WORK] };
    }
  }
}

function moved(before: AgentState, { places }: EventOf<'moved'>): Transition {
  const state = { ...before, places };
  if (isDeepStrictEqual(places, before.places)) return { state: before, effects: [REMEMBER] };
  if (state.phase === 'starting') return { state, effects: [REMEMBER] };
  const line: AgentEffect = {
    kind: 'say',
    message: 'the addresses of the control plane have changed; updating the failsafe list',
    fields: { places: places.map(({ ports: [port], peers }) => `${[peers].flat().join(',')} ${port}`) },
  };
  return { state, effects: [REMEMBER, line, WORK] };
}

function timeIsUp(state: AgentState, timer: TimerName): Transition {
  switch (timer) {
    case 'patience':
      return useLast(state);
    case 'comeBack':
      return { state: { ...state, isWaiting: false }, effects: [WORK] };
    case 'retry':
      return { state, effects: [WORK] };
    case 'switchOff':
      return { state: { ...state, isSwitchingOff: false }, effects: [REMEMBER, WORK] };
  }
}

function wanted(state: AgentState, target: EnforcementTarget): Transition {
  const gate: AgentEffect = { kind: 'showGate', enabled: true, isOff: false };
  const isNews = target.wanted !== state.submitted?.wanted;
  return {
    state: { ...state, without: null, enabled: true, submitted: target },
    effects: isNews ? [gate, { kind: 'submit', target }] : [gate],
  };
}

function cleared(before: AgentState, { why, removed, interfaces }: EventOf<'cleared'>): Transition {
  // `nodewall off` leaves the gate as it is.
  const enabled = why === 'off' && gateOf(before) !== false;
  const isUnset = why === 'gate' && saidGate(before) === 'unset';
  const fields = { removed, interfaces, gate: isUnset ? UNSET : GATES[why] };
  return {
    state: { ...before, without: why, enabled, inForce: null, policies: 0, failing: [] },
    effects: [
      { kind: 'showGate', enabled, isOff: why === 'off' },
      { kind: 'showRevision', revision: null },
      { kind: 'say', message: 'disabled', fields },
      REPORT_SOON,
    ],
  };
}

function workFailed(state: AgentState): Transition {
  // The submission may be what failed: the next turn submits the state again.
  return {
    state: { ...state, submitted: null },
    effects: [{ kind: 'arm', timer: 'retry', milliseconds: RETRY }],
  };
}

function enforced(before: AgentState, event: EventOf<'enforced'>): Transition {
  const { result } = event;
  const { wanted, received } = result.envelope;
  const inForce = { wanted, received, revision: revisionInForce(before, result.envelope) };
  const areOthers = before.inForce?.wanted.rules !== wanted.rules;
  const hasNews =
    areOthers ||
    steersOtherwise(before.inForce?.wanted ?? {}, wanted) ||
    before.failing.length > 0 ||
    result.failed.size > 0;
  return {
    state: {
      ...before,
      inForce,
      failing: failingRules(result),
      policies: new Set(result.resolved.rules.map(policyKey)).size,
    },
    effects: [
      { kind: 'showRevision', revision: inForce.revision },
      { kind: 'report', isSoon: hasNews },
    ],
  };
}

/** Whether other policies are in force, or by other gateways: more than other pods. */
function steersOtherwise({ egress: before }: ExtensionPart, { egress: now }: ExtensionPart): boolean {
  return before?.outcomes !== now?.outcomes || before?.slots !== now?.slots || before?.takes !== now?.takes;
}

function refused(state: AgentState, error: Error): Transition {
  const { submitted, inForce } = state;
  if (submitted === null) return { state, effects: [] };
  const failing = allFailing(submitted.wanted, inForce?.wanted ?? null, error);
  return { state: { ...state, failing }, effects: [REPORT_SOON] };
}

function stopping(state: AgentState): Transition {
  const turn = state.isSwitchingOff ? (['switchOff'] as const) : [];
  const timers = ['patience', 'retry', 'comeBack', ...turn] as const;
  const effects = timers.map((timer): AgentEffect => ({ kind: 'disarm', timer }));
  return { state: { ...state, phase: 'stopping' }, effects };
}
