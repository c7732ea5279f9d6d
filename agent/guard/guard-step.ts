import { emptyNodeState, type NodeState } from '../../apis/compiled.ts';
import {
  AGAIN,
  MOST_ATTEMPTS,
  NO_PROBES,
  NO_TIMER,
  ONE_ROLLBACK_IN,
  REMEMBER,
  REPORT,
  SUBMIT,
} from './guard-effects.ts';
import type {
  EventOf,
  Failure,
  GuardEffect,
  GuardEvent,
  GuardState,
  GuardStep,
  GuardTimes,
  HoldReason,
  PendingTrial,
  PolicyChange,
  Trial,
} from './guard-state.ts';
import { checked, keysOf, retried, triedAgain, unhelped, wakeForHolds, withHolds } from './held-step.ts';

/** Rounds in a row that confirm. */
const ROUNDS = 3;
/** Milliseconds between two rounds, at most. */
const LONGEST_PAUSE = 15_000;
/** Milliseconds that a state which joins has for its first round, whatever failed before. */
const GRACE = 2_000;
/**
 * Milliseconds after a rollback in which the round before an edit may have been made under the
 * rules that are rolled back.
 */
const SOON = 10_000;

/** Pure: the same state and event give the same step. */
export function guardStep(state: GuardState, event: GuardEvent, times: GuardTimes): GuardStep {
  switch (event.kind) {
    case 'started':
      return started(state, event);
    case 'resumed':
      return resumed(state, event);
    case 'wanted':
      return wanted(state, event);
    case 'applied':
      return applied(state, event, times);
    case 'round':
      return state.check === null ? round(state, event, times) : checked(state, event);
    case 'timer':
      return timeIsUp(state, event, times);
    case 'lost':
      return state.trial === null ? { state, effects: [] } : interrupted(state, state.trial, event);
    case 'confirm':
      return state.trial === null
        ? { state, effects: [] }
        : confirmed(state, state.trial, 'by hand', event.at);
    case 'retry':
      return retried(state, event);
  }
}

/** A trial of an earlier run: the confirmed state first, then it is tried once more. */
function started(state: GuardState, event: EventOf<'started'>): GuardStep {
  return state.interrupted === null
    ? { state, effects: [wakeForHolds(state, event.at)] }
    : interrupted(state, state.interrupted, event);
}

/** No attempt: an earlier run may have put the change in force, and ended before it wrote that. */
function resumed(before: GuardState, { changes, time }: EventOf<'resumed'>): GuardStep {
  const why: HoldReason = { kind: 'interrupted' };
  const state: GuardState = {
    ...before,
    interrupted: { changes, attempt: 0 },
    holds: withHolds(before.holds, changes, { why, sets: [], isBrief: true, since: time }),
  };
  const message = 'policies differ from the last confirmed rules; these are enforced first';
  const said: GuardEffect = { kind: 'say', level: 'info', message, fields: { policies: keysOf(changes) } };
  return { state, effects: [said, REMEMBER] };
}

function interrupted(
  before: GuardState,
  { changes, attempt }: PendingTrial,
  { at, time }: GuardEvent,
): GuardStep {
  const isBrief = attempt < MOST_ATTEMPTS;
  const why: HoldReason = { kind: 'interrupted' };
  const state: GuardState = {
    ...before,
    trial: null,
    check: null,
    interrupted: isBrief ? { changes, attempt } : null,
    holds: withHolds(before.holds, changes, { why, sets: [], isBrief, since: time }),
  };
  const message = isBrief
    ? 'a change was interrupted before it was confirmed; the last confirmed rules are enforced, then it is tried again'
    : 'a change was interrupted twice before it was confirmed; it is held, and the last confirmed rules are enforced';
  const said: GuardEffect = { kind: 'say', level: 'warn', message, fields: { policies: keysOf(changes) } };
  const rolledBack: GuardEffect[] = isBrief ? [] : [{ kind: 'rolledBack', why, changes }];
  const timer = wakeForHolds(state, at);
  return { state, effects: [NO_PROBES, timer, said, ...rolledBack, REMEMBER, SUBMIT, REPORT] };
}

/** Holds of versions that nobody wants any more end. */
function wanted(state: GuardState, { digestOf }: EventOf<'wanted'>): GuardStep {
  const holds = state.holds.filter(({ key, digest }) => digestOf(key) === digest);
  // An agent of a cluster wants the confirmed state first, until its controller answers.
  const isAwaited = ({ key, digest, before }: PolicyChange): boolean =>
    [digest, before].includes(digestOf(key));
  const interrupted = state.interrupted?.changes.every(isAwaited) === true ? state.interrupted : null;
  if (holds.length === state.holds.length && interrupted === state.interrupted) return { state, effects: [] };
  return { state: { ...state, holds, interrupted }, effects: [REMEMBER, REPORT] };
}

function applied(before: GuardState, event: EventOf<'applied'>, times: GuardTimes): GuardStep {
  if (event.isTried) return tried(before, event, times);
  // Whether the rollback helped is asked of the rules before, which a busy machine may apply late.
  const check = before.check === null ? null : { ...before.check, since: event.at };
  const brief = before.holds.filter(({ isBrief }) => isBrief);
  const holds = brief.length === 0 ? before.holds : before.holds.filter(({ isBrief }) => !isBrief);
  const wasTried = before.trial !== null;
  const isConfirmed = before.interrupted?.changes.some((one) =>
    event.changes.some((now) => isSame(one, now)),
  );
  const interrupted = isConfirmed === true ? null : before.interrupted;
  const state: GuardState = { ...before, confirmed: event.state, trial: null, holds, interrupted, check };
  return {
    state,
    effects: [
      { kind: 'save', state: event.state },
      ...(wasTried ? [NO_PROBES, wakeForHolds(state, event.at), REPORT] : []),
      ...(wasTried || interrupted !== before.interrupted ? [REMEMBER] : []),
      // The confirmed state is in force again: what was interrupted is tried once more.
      ...(brief.length === 0 ? [] : [SUBMIT]),
      ...(check === null ? [] : [probeNow([check.probe]), wakeAfter(times.failAfter)]),
    ],
  };
}

function tried(before: GuardState, event: EventOf<'applied'>, times: GuardTimes): GuardStep {
  const { at, changes, sets } = event;
  const joined = before.trial;
  const confirmed = withEgress(before.confirmed, event.state);
  const saved: GuardEffect[] =
    confirmed === null || confirmed === before.confirmed ? [] : [{ kind: 'save', state: confirmed }];
  if (joined !== null && sameChanges(joined, event)) {
    // Only members changed: in a large cluster they do so all the time.
    const trial = { ...joined, state: event.state, changes };
    return { state: { ...before, confirmed, trial }, effects: saved };
  }
  const isAgain = before.interrupted?.changes.some((one) => changes.some((now) => isSame(one, now))) === true;
  const trial: Trial = {
    state: event.state,
    changes,
    sets,
    attempt: joined?.attempt ?? (isAgain ? (before.interrupted?.attempt ?? 0) : 0) + 1,
    since: at,
    counted: new Set([...(joined?.counted ?? recentlyCounted(before, at)), ...event.passed]),
    passes: 0,
    firstPass: at,
    failing: new Map(
      [...(joined?.failing ?? [])].map(([name, one]) => [name, { ...one, notBefore: at + GRACE }]),
    ),
  };
  const state: GuardState = { ...before, confirmed, trial, check: null, interrupted: null };
  const fields = { policies: keysOf(changes), seconds: times.window / 1000, probes: [...trial.counted] };
  const message =
    times.manual === null
      ? 'the new rules are in force and tried; they are confirmed after this time if the probes pass'
      : 'the new rules are in force and tried, until nodewall confirm';
  return {
    state,
    effects: [
      ...saved,
      { kind: 'say', level: 'info', message, fields },
      REMEMBER,
      REPORT,
      probeNow([...trial.counted]),
      wake(state, at, times),
    ],
  };
}

/**
 * The confirmed rules, with the egress gateways of the newest state. These are not tried: a process
 * that begins with the confirmed state would else steer by earlier policies.
 */
function withEgress(confirmed: NodeState | null, { node, egress }: NodeState): NodeState | null {
  if (confirmed?.egress === egress) return confirmed;
  const { egress: _, ...rest } = confirmed ?? emptyNodeState(node);
  return egress === undefined ? rest : { ...rest, egress };
}

/** Probes that passed under the confirmed rules, before a trial that was rolled back just now. */
function recentlyCounted({ lastCounted }: GuardState, at: number): Iterable<string> {
  return lastCounted === null || at > lastCounted.until ? [] : lastCounted.probes;
}

function round(before: GuardState, event: EventOf<'round'>, times: GuardTimes): GuardStep {
  const { trial } = before;
  if (trial === null) return { state: before, effects: [] };
  const { at, began, results } = event;
  // Of a round that began before this trial, nothing is known of its rules.
  if (began < trial.since) return { state: before, effects: [] };
  const counted = results.filter(({ probe }) => trial.counted.has(probe));
  // One that could not be made, because its prober is away, neither failed nor passed.
  const unmade = [...trial.failing].filter(([name]) => counted.every(({ probe }) => probe !== name));
  const failing = new Map<string, Failure>(unmade);
  for (const { probe, error, fault } of counted) {
    if (error === null) continue;
    const { since = began, notBefore = 0 } = trial.failing.get(probe) ?? {};
    failing.set(probe, { since, notBefore, error, fault });
  }
  const isPassed = failing.size === 0;
  const passes = isPassed ? trial.passes + 1 : 0;
  const firstPass = trial.passes === 0 ? began : trial.firstPass;
  const next: Trial = { ...trial, failing, passes, firstPass };
  const state = { ...before, trial: next };
  if (isDone(next, at, times)) return confirmed(state, next, 'by its probes', at);
  const pause = isPassed ? Math.min(times.window / 2, LONGEST_PAUSE) : Math.min(AGAIN, times.window / 2);
  // Timers may fire a millisecond early: then a round more, and not half a window later.
  const left = passes < ROUNDS ? Number.POSITIVE_INFINITY : firstPass + times.window - at;
  const isNew = [...failing.keys()].some((name) => !trial.failing.has(name));
  return {
    state,
    effects: [
      ...(isNew ? [sayFailing(failing)] : []),
      { kind: 'probe', probes: [...trial.counted], after: Math.max(0, Math.min(pause - (at - began), left)) },
      wake(state, at, times),
    ],
  };
}

function isDone({ passes, firstPass }: Trial, at: number, { window, manual }: GuardTimes): boolean {
  return manual === null && passes >= ROUNDS && at - firstPass >= window;
}

function sayFailing(failing: ReadonlyMap<string, Failure>): GuardEffect {
  const fields = { probes: Object.fromEntries([...failing].map(([name, { error }]) => [name, error])) };
  return { kind: 'say', level: 'warn', message: 'probes fail since the rules changed', fields };
}

function timeIsUp(state: GuardState, event: EventOf<'timer'>, times: GuardTimes): GuardStep {
  if (state.check !== null) return unhelped(state, event, times);
  const { trial } = state;
  if (trial === null) return triedAgain(state, event);
  for (const [probe, failure] of trial.failing) {
    if (event.at < rollbackAt(state, probe, failure, times)) continue;
    const { fault, error } = failure;
    return rolledBack(state, trial, { kind: 'probe', probe, fault, error }, event);
  }
  if (times.manual !== null && event.at >= trial.since + times.manual)
    return rolledBack(state, trial, { kind: 'unconfirmed' }, event);
  const hasNone = trial.counted.size === 0 && times.manual === null;
  if (hasNone && event.at >= trial.since + times.window)
    return confirmed(state, trial, 'by time; no probe passed before the change', event.at);
  return { state, effects: [wake(state, event.at, times)] };
}

/** When a failing probe takes the trial back. */
function rollbackAt(state: GuardState, probe: string, failure: Failure, { failAfter }: GuardTimes): number {
  const due = Math.max(failure.since + failAfter, failure.notBefore);
  const last = state.rollbacks.get(probe);
  // A rule that denies the probe's flow is proof; else it may be an outage.
  return last === undefined || failure.fault !== null ? due : Math.max(due, last + ONE_ROLLBACK_IN);
}

function rolledBack(before: GuardState, trial: Trial, why: HoldReason, { at, time }: GuardEvent): GuardStep {
  const { changes, sets } = trial;
  const isProbe = why.kind === 'probe';
  const state: GuardState = {
    ...before,
    trial: null,
    check: isProbe ? { probe: why.probe, since: at, keys: keysOf(changes), attempt: trial.attempt } : null,
    lastCounted: { probes: trial.counted, until: at + SOON },
    holds: withHolds(before.holds, changes, { why, sets, isBrief: false, since: time }),
    rollbacks: isProbe ? new Map(before.rollbacks).set(why.probe, at) : before.rollbacks,
  };
  return {
    state,
    effects: [
      NO_PROBES,
      // The check begins once the confirmed rules are in force.
      isProbe ? NO_TIMER : wakeForHolds(state, at),
      { kind: 'rolledBack', why, changes },
      SUBMIT,
      REMEMBER,
      REPORT,
    ],
  };
}

function confirmed(before: GuardState, trial: Trial, how: string, at: number): GuardStep {
  const state: GuardState = { ...before, confirmed: trial.state, trial: null, lastCounted: null };
  const fields = { policies: keysOf(trial.changes), how };
  return {
    state,
    effects: [
      NO_PROBES,
      wakeForHolds(state, at),
      { kind: 'say', level: 'info', message: 'the rules are confirmed', fields },
      { kind: 'save', state: trial.state },
      REMEMBER,
      REPORT,
    ],
  };
}

/** The timer for the next thing that time alone decides. */
function wake(state: GuardState, at: number, times: GuardTimes): GuardEffect {
  const { trial } = state;
  if (trial === null) return NO_TIMER;
  const due = [...trial.failing].map(([probe, one]) => rollbackAt(state, probe, one, times));
  if (times.manual !== null) due.push(trial.since + times.manual);
  else if (trial.counted.size === 0) due.push(trial.since + times.window);
  return due.length === 0 ? NO_TIMER : { kind: 'wake', after: Math.max(0, Math.min(...due) - at) };
}

function wakeAfter(after: number): GuardEffect {
  return { kind: 'wake', after };
}

function probeNow(probes: readonly string[]): GuardEffect {
  return { kind: 'probe', probes, after: 0 };
}

function sameChanges(a: Pick<Trial, 'changes' | 'sets'>, b: Pick<Trial, 'changes' | 'sets'>): boolean {
  const text = ({ changes, sets }: typeof a): string =>
    JSON.stringify([changes.map(({ key, digest }) => [key, digest]), sets]);
  return text(a) === text(b);
}

function isSame(a: PolicyChange, b: PolicyChange): boolean {
  return a.key === b.key && a.digest === b.digest;
}
