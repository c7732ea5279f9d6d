import { emptyNodeState, type NodeState } from '../../apis/compiled.ts';
import {
  AGAIN,
  countedIn,
  type EnforcementFailure,
  type EventOf,
  type GuardEffect,
  type GuardEvent,
  type GuardState,
  type GuardStep,
  type GuardTimes,
  type HoldReason,
  isDone,
  isMade,
  isSame,
  MOST_ATTEMPTS,
  NO_PROBES,
  NO_TIMER,
  ONE_ROLLBACK_IN,
  type PendingTrial,
  REMEMBER,
  REPORT,
  ROUNDS,
  type RollbackCheck,
  requiredOf,
  SUBMIT,
  SUBMIT_AT_ONCE,
  sameChanges,
  soon,
  type Trial,
} from './guard-state.ts';
import {
  addHolds,
  checkBegun,
  inForce,
  isProving,
  keysOf,
  proofLost,
  proofOf,
  retried,
  rollbackChecked,
  roundOfProof,
  stillHeld,
  timeOfProof,
  triedAgain,
  unhelped,
  waiting,
  wakeForHolds,
} from './held-step.ts';

/** Milliseconds between two rounds, at most. */
const LONGEST_PAUSE = 15_000;
/**
 * Milliseconds that a state which joins has for its first round, whatever failed before: more than
 * a probe needs to fail.
 */
const GRACE = 4_000;

/** Pure: the same state and event give the same step. */
export function guardStep(state: GuardState, event: GuardEvent, times: GuardTimes): GuardStep {
  switch (event.kind) {
    case 'started':
      return started(state, event);
    case 'wanted':
      return wanted(state, event, times);
    case 'applied':
      return applied(state, event, times);
    case 'round':
      if (state.check !== null) return rollbackChecked(state, event);
      return isProving(state) ? roundOfProof(state, event) : round(state, event, times);
    case 'timer':
      return timeIsUp(state, event, times);
    case 'family':
      return reached(state, event, times);
    case 'lost':
      return state.trial === null
        ? proofLost(state, event)
        : interrupted(state, pendingOf(state.trial), event);
    case 'confirm':
      return state.trial === null || state.lacking !== null
        ? { state, effects: [] }
        : confirmed(state, state.trial, 'by hand', event.at);
    case 'retry':
      return retried(state, event);
  }
}

function pendingOf(trial: Trial): PendingTrial {
  return { changes: trial.changes, attempt: trial.attempt, counted: requiredOf(trial) };
}

/** A trial of an earlier run: the confirmed state first, then it is tried once more. */
function started(state: GuardState, event: EventOf<'started'>): GuardStep {
  return state.interrupted === null
    ? { state, effects: [wakeForHolds(state, event.at)] }
    : interrupted(state, state.interrupted, event);
}

function interrupted(
  before: GuardState,
  pending: PendingTrial,
  { kind, at, time }: EventOf<'started' | 'lost'>,
): GuardStep {
  const { changes, attempt, counted } = pending;
  const isBrief = attempt < MOST_ATTEMPTS;
  const why: HoldReason = { kind: 'interrupted' };
  const state: GuardState = {
    ...before,
    trial: null,
    check: null,
    interrupted: isBrief && changes.length > 0 ? pending : null,
    proof: proofOf(counted),
    holds: addHolds(before.holds, changes, { why, sets: [], isBrief, since: time }),
  };
  const message = isBrief
    ? 'a change was interrupted before it was confirmed; the last confirmed rules are enforced, and it is tried again once the probes that counted pass'
    : 'a change was interrupted twice before it was confirmed; it is held, and the last confirmed rules are enforced';
  const said: GuardEffect = { kind: 'say', level: 'warn', message, fields: { policies: keysOf(changes) } };
  const rolledBack: GuardEffect[] = isBrief ? [] : [{ kind: 'rolledBack', why, changes }];
  const timer = wakeForHolds(state, at);
  const submit = kind === 'lost' ? SUBMIT_AT_ONCE : SUBMIT;
  return { state, effects: [NO_PROBES, timer, said, ...rolledBack, REMEMBER, submit, REPORT] };
}

/** Holds of versions that nobody wants any more end. */
function wanted(before: GuardState, event: EventOf<'wanted'>, times: GuardTimes): GuardStep {
  const { digestOf } = event;
  const holds = stillHeld(before.holds, digestOf);
  const interrupted = awaited(before.interrupted, digestOf);
  const isSameAsBefore = holds.length === before.holds.length && interrupted === before.interrupted;
  const changed: GuardEffect[] = isSameAsBefore ? [] : [REMEMBER, REPORT];
  const { state, effects } = waiting({ ...before, interrupted }, holds, event, times);
  return { state, effects: [...effects, ...changed] };
}

/** The changes that may still be tried again. */
function awaited(
  pending: PendingTrial | null,
  digestOf: (key: string) => string | null,
): PendingTrial | null {
  // An agent of a cluster wants the confirmed state first, until its controller answers.
  const changes = pending?.changes.filter(({ key, digest, before }) =>
    [digest, before].includes(digestOf(key)),
  );
  if (pending === null || changes?.length === pending.changes.length) return pending;
  return changes === undefined || changes.length === 0 ? null : { ...pending, changes };
}

function applied(before: GuardState, event: EventOf<'applied'>, times: GuardTimes): GuardStep {
  if (event.isTried) return tried(before, event, times);
  // Whether the rollback helped is asked of the rules before, which a busy machine may apply late.
  const { check, effects: asked } = checkBegun(before, event.at, times);
  const wasTried = before.trial !== null;
  const isConfirmed = before.interrupted?.changes.some((one) =>
    event.changes.some((now) => isSame(one, now)),
  );
  const interrupted = isConfirmed === true ? null : before.interrupted;
  const lastCounted = soon(before, event.at);
  const known = { ...before, confirmed: event.state, trial: null, interrupted, check, lastCounted };
  const { state, effects } =
    before.proof?.since === null ? inForce(known, event.at, times) : { state: known, effects: [] };
  return {
    state,
    effects: [
      { kind: 'save', state: event.state },
      ...(wasTried ? [NO_PROBES, wakeForHolds(state, event.at), REPORT] : []),
      ...(wasTried || interrupted !== before.interrupted || lastCounted !== before.lastCounted
        ? [REMEMBER]
        : []),
      ...effects,
      ...asked,
    ],
  };
}

function tried(before: GuardState, event: EventOf<'applied'>, times: GuardTimes): GuardStep {
  // It was on its way when the proof became necessary: the confirmed state follows.
  if (before.proof !== null) return { state: before, effects: [] };
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
    ...countedIn(event, before),
    passes: 0,
    firstPass: at,
    made: new Set(),
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
 * Probes that passed before a family had the change prove nothing: the window begins anew. Those
 * that failed before a family had the rollback do not either.
 */
function reached(before: GuardState, { at, lacking }: EventOf<'family'>, times: GuardTimes): GuardStep {
  if (lacking === before.lacking) return { state: before, effects: [] };
  const { trial } = before;
  if (trial === null) {
    const state = { ...before, lacking, lastCounted: soon({ ...before, lacking }, at) };
    const changed = state.lastCounted === before.lastCounted ? [] : [REMEMBER];
    if (lacking === null && isProving(before)) return inForce(state, at, times);
    if (lacking !== null || before.check?.since == null) return { state, effects: changed };
    const { check, effects } = checkBegun(before, at, times);
    return { state: { ...state, check }, effects: [...effects, ...changed] };
  }
  const anew = { since: at, passes: 0, firstPass: at, made: new Set<string>() };
  const state: GuardState = { ...before, lacking, trial: { ...trial, ...anew } };
  return { state, effects: [REPORT, probeNow([...trial.counted]), wake(state, at, times)] };
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

function round(before: GuardState, event: EventOf<'round'>, times: GuardTimes): GuardStep {
  const { trial } = before;
  if (trial === null) return { state: before, effects: [] };
  const { at, began, results } = event;
  // A round that began before this trial says nothing of its rules.
  if (began < trial.since) return { state: before, effects: [] };
  const counted = results.filter(({ probe }) => trial.counted.has(probe));
  // One that could not be made, because its prober is away, neither failed nor passed.
  const unmade = [...trial.failing].filter(([name]) => counted.every(({ probe }) => probe !== name));
  const failing = new Map<string, EnforcementFailure>(unmade);
  for (const { probe, error, fault } of counted) {
    if (error === null) continue;
    const { since = began, notBefore = 0 } = trial.failing.get(probe) ?? {};
    failing.set(probe, { since, notBefore, error, fault });
  }
  const isPassed = failing.size === 0;
  const passes = isPassed ? trial.passes + 1 : 0;
  const firstPass = trial.passes === 0 ? began : trial.firstPass;
  const passing = counted.filter(({ error }) => error === null).map(({ probe }) => probe);
  const made = new Set([...trial.made, ...passing]);
  const next: Trial = { ...trial, failing, passes, firstPass, made };
  const state = { ...before, trial: next };
  if (before.lacking === null && isDone(next, at, times)) return confirmed(state, next, 'by its probes', at);
  const pause = isPassed ? Math.min(times.window / 2, LONGEST_PAUSE) : Math.min(AGAIN, times.window / 2);
  // Timers may fire a millisecond early: then a round more, and not half a window later.
  const left = passes < ROUNDS || !isMade(next) ? Number.POSITIVE_INFINITY : firstPass + times.window - at;
  const isNew = [...failing.keys()].some((name) => !trial.failing.has(name));
  const isOver = [...trial.failing.keys()].some((name) => !failing.has(name));
  return {
    state,
    effects: [
      ...(isNew ? [sayFailing(failing)] : []),
      ...(isNew || isOver ? [REPORT] : []),
      { kind: 'probe', probes: [...trial.counted], after: Math.max(0, Math.min(pause - (at - began), left)) },
      wake(state, at, times),
    ],
  };
}

function sayFailing(failing: ReadonlyMap<string, EnforcementFailure>): GuardEffect {
  const fields = { probes: Object.fromEntries([...failing].map(([name, { error }]) => [name, error])) };
  return { kind: 'say', level: 'warn', message: 'probes fail since the rules changed', fields };
}

function timeIsUp(state: GuardState, event: EventOf<'timer'>, times: GuardTimes): GuardStep {
  if (state.check !== null) return unhelped(state, event, times);
  if (state.proof !== null) return timeOfProof(state, event, times);
  const { trial } = state;
  if (trial === null) return triedAgain(state, event, times);
  for (const [probe, failure] of trial.failing) {
    if (event.at < rollbackAt(state, probe, failure, times)) continue;
    const { fault, error } = failure;
    return rolledBack(state, trial, { kind: 'probe', probe, fault, error }, event);
  }
  if (times.manual !== null && event.at >= trial.since + times.manual)
    return rolledBack(state, trial, { kind: 'unconfirmed', lacking: state.lacking }, event);
  if (isByTime(state, times) && event.at >= trial.since + times.window)
    return confirmed(state, trial, 'by time; no probe passed before the change', event.at);
  return { state, effects: [wake(state, event.at, times)] };
}

/** When a failing probe takes the trial back. */
function rollbackAt(
  state: GuardState,
  probe: string,
  failure: EnforcementFailure,
  { failAfter }: GuardTimes,
): number {
  const due = Math.max(failure.since + failAfter, failure.notBefore);
  const last = state.rollbacks.get(probe);
  // A rule that denies the probe's flow is proof; else it may be an outage.
  return last === undefined || failure.fault !== null ? due : Math.max(due, last + ONE_ROLLBACK_IN);
}

function rolledBack(
  before: GuardState,
  trial: Trial,
  why: HoldReason,
  { at, time, atFault }: EventOf<'timer'>,
): GuardStep {
  const { sets } = trial;
  const counted = requiredOf(trial);
  const isProbe = why.kind === 'probe';
  const found = new Set(isProbe && why.fault !== null && sets.length === 0 ? atFault(why.probe) : []);
  const guilty = trial.changes.filter(({ key }) => found.has(key));
  const changes = guilty.length === 0 ? trial.changes : guilty;
  const rest = trial.changes.filter((one) => !changes.includes(one));
  const held = addHolds(before.holds, changes, { why, sets, isBrief: false, since: time });
  const waiting = { why: { kind: 'interrupted' }, sets: [], isBrief: true, since: time } as const;
  const isAlone = rest.length === 0;
  const check: RollbackCheck | null =
    isProbe && isAlone
      ? { probe: why.probe, since: null, keys: keysOf(changes), attempt: trial.attempt }
      : null;
  const state: GuardState = {
    ...before,
    check,
    trial: null,
    // The probes pass under the confirmed rules first: then the rest is tried.
    interrupted: isAlone ? null : { changes: rest, attempt: 0, counted },
    proof: isAlone ? null : proofOf(counted),
    lastCounted: { probes: new Set(counted), until: Number.POSITIVE_INFINITY },
    holds: addHolds(held, rest, { ...waiting, because: keysOf(changes) }),
    rollbacks: isProbe ? new Map(before.rollbacks).set(why.probe, at) : before.rollbacks,
  };
  return {
    state,
    effects: [
      NO_PROBES,
      // The check begins once the confirmed rules are in force.
      check === null ? wakeForHolds(state, at) : NO_TIMER,
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

function isByTime({ trial, lacking }: GuardState, { manual }: GuardTimes): boolean {
  return trial?.counted.size === 0 && lacking === null && manual === null;
}

/** The timer for the next thing that time alone decides. */
function wake(state: GuardState, at: number, times: GuardTimes): GuardEffect {
  const { trial } = state;
  if (trial === null) return NO_TIMER;
  const due = [...trial.failing].map(([probe, one]) => rollbackAt(state, probe, one, times));
  if (times.manual !== null) due.push(trial.since + times.manual);
  else if (isByTime(state, times)) due.push(trial.since + times.window);
  return due.length === 0 ? NO_TIMER : { kind: 'wake', after: Math.max(0, Math.min(...due) - at) };
}

function probeNow(probes: readonly string[]): GuardEffect {
  return { kind: 'probe', probes, after: 0 };
}
