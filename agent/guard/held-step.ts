import {
  AGAIN,
  ALL_PROBES,
  type EventOf,
  type GuardEffect,
  type GuardEvent,
  type GuardState,
  type GuardStep,
  type GuardTimes,
  type Hold,
  type HoldReason,
  MOST_ATTEMPTS,
  NO_PROBES,
  NO_TIMER,
  ONE_ROLLBACK_IN,
  type PolicyChange,
  type Proof,
  REMEMBER,
  REPORT,
  type RollbackCheck,
  SUBMIT,
} from './guard-state.ts';

/**
 * Steps of guarded apply about changes that are held: whether their rollback helped, and when they
 * are tried again.
 */

/** The confirmed rules are in force in a family more: whether that helps is asked from now on. */
export function checkBegun(
  { check }: Pick<GuardState, 'check'>,
  at: number,
  { failAfter }: GuardTimes,
): Pick<GuardState, 'check'> & Pick<GuardStep, 'effects'> {
  if (check === null) return { check, effects: [] };
  const probe: GuardEffect = { kind: 'probe', probes: [check.probe], after: 0 };
  return { check: { ...check, since: at }, effects: [probe, { kind: 'wake', after: failAfter }] };
}

/** After a rollback: a probe that passes says that it helped. */
export function rollbackChecked(state: GuardState, { at, results }: EventOf<'round'>): GuardStep {
  const { check } = state;
  if (check === null) return { state, effects: [] };
  const result = results.find(({ probe }) => probe === check.probe);
  if (result?.error !== null)
    return { state, effects: [{ kind: 'probe', probes: [check.probe], after: AGAIN }] };
  const holds = state.holds.map((hold): Hold => {
    const isUnproven = isWithoutFault(hold, check) && check.attempt < MOST_ATTEMPTS;
    return isUnproven ? { ...hold, isUnproven } : hold;
  });
  const next: GuardState = { ...state, check: null, holds };
  const message = holds.some(({ isUnproven }) => isUnproven)
    ? 'the probe passes again after the rollback, but no rule denies it; the change is held, and tried again ten minutes after the rollback'
    : 'the probe passes again after the rollback; the change is held';
  const said: GuardEffect = { kind: 'say', level: 'info', message, fields: { probe: check.probe } };
  return { state: next, effects: [wakeForHolds(next, at), said, REMEMBER, REPORT] };
}

/** Held by the rollback that is checked, without a rule that denies the probe's flow. */
function isWithoutFault({ key, why }: Hold, check: RollbackCheck): boolean {
  return check.keys.includes(key) && why.kind === 'probe' && why.probe === check.probe && why.fault === null;
}

/** The probe still fails: the change was not the cause, unless a rule denies the probe's flow. */
export function unhelped(before: GuardState, { at }: GuardEvent, { failAfter }: GuardTimes): GuardStep {
  const { check, lacking } = before;
  if (check?.since == null) return { state: before, effects: [] };
  // A family may still have what was tried, which then is the cause.
  if (lacking !== null) return { state: before, effects: [{ kind: 'wake', after: failAfter }] };
  if (at < check.since + failAfter)
    return { state: before, effects: [{ kind: 'wake', after: check.since + failAfter - at }] };
  const holds = before.holds.filter((one) => !isWithoutFault(one, check));
  const state = { ...before, check: null, holds };
  const timer = wakeForHolds(state, at);
  if (holds.length === before.holds.length) return { state, effects: [NO_PROBES, timer] };
  const message =
    'the probe still fails after the rollback: the change is not the cause, and is applied again';
  const said: GuardEffect = { kind: 'say', level: 'warn', message, fields: { probe: check.probe } };
  return { state, effects: [NO_PROBES, timer, said, SUBMIT, REMEMBER, REPORT] };
}

/**
 * Changes that are held without a rule at fault, once another rollback for their probe is allowed:
 * they are tried again as soon as it passes.
 */
export function triedAgain(before: GuardState, { at }: GuardEvent, { failAfter }: GuardTimes): GuardStep {
  const due = before.holds.filter((hold) => againAt(before, hold) <= at);
  if (due.length === 0) return { state: before, effects: [wakeForHolds(before, at)] };
  const changes = due.map(({ key, digest, before: old, generation }) => {
    return { key, digest, before: old, generation };
  });
  const counted = due.flatMap(({ why }) => (why.kind === 'probe' ? [why.probe] : []));
  const holds = before.holds.map((hold): Hold => {
    const { isUnproven: _, ...rest } = hold;
    return due.includes(hold) ? { ...rest, isBrief: true } : hold;
  });
  const state: GuardState = {
    ...before,
    holds,
    interrupted: { changes, attempt: 1, counted },
    proof: { required: new Set(counted), since: at, passed: new Set(), missing: null },
  };
  const message = 'no rule was at fault at the rollback: the change is tried again once the probe passes';
  const said: GuardEffect = { kind: 'say', level: 'info', message, fields: { policies: keysOf(changes) } };
  return { state, effects: [ALL_PROBES, { kind: 'wake', after: failAfter }, said, REMEMBER, REPORT] };
}

/** When a hold ends by time. */
function againAt({ rollbacks }: GuardState, { why, isUnproven }: Hold): number {
  if (isUnproven !== true || why.kind !== 'probe') return Number.POSITIVE_INFINITY;
  return (rollbacks.get(why.probe) ?? Number.NEGATIVE_INFINITY) + ONE_ROLLBACK_IN;
}

/** The timer while nothing is tried. */
export function wakeForHolds(state: GuardState, at: number): GuardEffect {
  const due = Math.min(...state.holds.map((hold) => againAt(state, hold)));
  return due === Number.POSITIVE_INFINITY ? NO_TIMER : { kind: 'wake', after: Math.max(0, due - at) };
}

export function retried(before: GuardState, { at, policy }: EventOf<'retry'>): GuardStep {
  const isMeant = ({ key }: Hold): boolean => policy === null || key.split('/')[1] === policy;
  const holds = before.holds.filter((hold) => isBrief(hold) || !isMeant(hold));
  if (holds.length === before.holds.length) return { state: before, effects: [] };
  const state = { ...before, holds, check: null };
  return { state, effects: [NO_PROBES, wakeForHolds(state, at), SUBMIT, REMEMBER, REPORT] };
}

export function addHolds(
  holds: readonly Hold[],
  changes: readonly PolicyChange[],
  rest: Omit<Hold, keyof PolicyChange>,
): readonly Hold[] {
  const keys = new Set(keysOf(changes));
  const held = changes.map((one) => ({ ...one, ...rest }));
  return [...holds.filter(({ key }) => !keys.has(key)), ...(rest.isBrief ? held : heldTogether(held))];
}

/** Any of them may be the cause. */
function heldTogether(holds: readonly Hold[]): readonly Hold[] {
  return holds.map((hold): Hold => {
    const others = keysOf(holds).filter((key) => key !== hold.key);
    const because = [...new Set([...(hold.because ?? []), ...others])];
    return because.length === 0 ? hold : { ...hold, because };
  });
}

/** The holds of versions that are still wanted, as are those that were taken back with them. */
export function stillHeld(holds: readonly Hold[], digestOf: (key: string) => string | null): readonly Hold[] {
  const isWanted = ({ key, digest }: Hold): boolean => digestOf(key) === digest;
  const gone = new Set(keysOf(holds.filter((hold) => !isWanted(hold))));
  return holds.filter((hold) => isWanted(hold) && hold.because?.some((key) => gone.has(key)) !== true);
}

export function isBrief(hold: Hold): boolean {
  return hold.isBrief;
}

export function keysOf(changes: readonly PolicyChange[]): string[] {
  return changes.map(({ key }) => key);
}

/**
 * Steps of guarded apply before a trial, where the kernel may have had rules that are not
 * confirmed: all changes wait until the confirmed ones are in force, and the probes that counted
 * have passed under them.
 */

/** The confirmed rules are not known to be in force. */
export function proofOf(required: Iterable<string> | null): Proof {
  return {
    required: required === null ? null : new Set(required),
    since: null,
    passed: new Set(),
    missing: null,
  };
}

/**
 * All that differs from the confirmed rules waits, in the version that is wanted now.
 * @param holds those whose version is still wanted
 */
export function waiting(
  before: GuardState,
  holds: readonly Hold[],
  { at, time, changes }: EventOf<'wanted'>,
  times: GuardTimes,
): GuardStep {
  const { proof, interrupted } = before;
  // The rules in force are known, and what was interrupted was edited: nothing has to be proved.
  const isOver = interrupted === null && proof?.since != null && !isProving(before);
  if (proof === null || isOver) return { state: { ...before, proof: null, holds }, effects: [] };
  const held = new Set(holds.map(({ key }) => key));
  const why: HoldReason = { kind: 'interrupted' };
  const fresh = changes
    .filter(({ key }) => !held.has(key))
    .map((one): Hold => ({ ...one, why, sets: [], isBrief: true, since: time }));
  const state = { ...before, holds: [...holds, ...fresh] };
  const message = 'policies differ from the last confirmed rules; these are enforced first';
  const fields = { policies: keysOf(fresh) };
  const effects: GuardEffect[] =
    fresh.length === 0 ? [] : [{ kind: 'say', level: 'info', message, fields }, REMEMBER, REPORT];
  if (proof.since === null) return { state, effects };
  // An edit of one that waits begins nothing anew.
  const isGoingOn = isProving(before) && isProving(state);
  const began = isGoingOn ? { state, effects: [] } : inForce(state, at, times);
  return { state: began.state, effects: [...effects, ...began.effects] };
}

/** The confirmed rules are in force: those of the kernel are known from now on. */
export function inForce(before: GuardState, at: number, times: GuardTimes): GuardStep {
  const { proof, interrupted } = before;
  if (proof === null) return { state: before, effects: [] };
  const began: Proof = { ...proof, since: at, passed: new Set(), missing: null };
  if (isProving({ ...before, proof: began }))
    return { state: { ...before, proof: began }, effects: [ALL_PROBES, wakeIn(times.failAfter)] };
  // An agent of a cluster wants the confirmed state until its controller answers.
  const state = { ...before, proof: interrupted === null ? null : began };
  return { state, effects: [NO_PROBES, wakeForHolds(state, at)] };
}

/** Whether changes wait for probes that are made. */
export function isProving({ proof, holds }: GuardState): boolean {
  return proof !== null && proof.since !== null && holds.some(isBrief);
}

export function roundOfProof(before: GuardState, { at, began, results }: EventOf<'round'>): GuardStep {
  const { proof } = before;
  if (proof === null || proof.since === null || !isProving(before)) return { state: before, effects: [] };
  const again: GuardEffect = { kind: 'probe', probes: null, after: Math.max(0, began + AGAIN - at) };
  if (began < proof.since) return { state: before, effects: [again] };
  const names = results.map(({ probe }) => probe);
  const passing = results.filter(({ error }) => error === null).map(({ probe }) => probe);
  const passed = new Set([...proof.passed, ...passing]);
  const missing = [...(proof.required ?? names)].filter((name) => !passed.has(name));
  const isComplete = missing.length === 0 && (passed.size > 0 || names.length === 0);
  if (isComplete) return complete(before, passed, at);
  const isNews = proof.missing?.length !== missing.length;
  const state = { ...before, proof: { ...proof, passed, missing } };
  return { state, effects: [again, ...(isNews ? [REPORT] : [])] };
}

export function timeOfProof(before: GuardState, { at }: GuardEvent, { failAfter }: GuardTimes): GuardStep {
  const { proof, lacking } = before;
  if (proof === null || proof.since === null || !isProving(before)) return { state: before, effects: [] };
  // A family may still have what was tried, and its probes cannot pass before.
  if (lacking !== null) return { state: before, effects: [wakeIn(failAfter)] };
  const left = proof.since + failAfter - at;
  if (left > 0) return { state: before, effects: [wakeIn(left)] };
  // No round has ended yet, on a busy machine: nothing is known.
  if (proof.missing === null) return { state: before, effects: [wakeIn(AGAIN)] };
  // No probe had to pass, and none does: it is an outage, and what is tried now is not the cause.
  return proof.missing.length === 0
    ? complete(before, proof.passed, at)
    : unproven(before, proof.missing, at);
}

/** The kernel lost its rules: what has passed since may have passed under none. */
export function proofLost(before: GuardState, { at }: GuardEvent): GuardStep {
  const { proof } = before;
  if (proof === null || proof.since === null) return { state: before, effects: [] };
  const again: Proof = { ...proof, since: at, passed: new Set(), missing: null };
  return { state: { ...before, proof: again }, effects: [] };
}

function complete(before: GuardState, probes: ReadonlySet<string>, at: number): GuardStep {
  // A family may still have what was tried, under which its probes cannot pass.
  const counted = before.lacking === null ? [] : (before.lastCounted?.probes ?? []);
  const state: GuardState = {
    ...before,
    proof: null,
    holds: before.holds.filter((hold) => !isBrief(hold)),
    lastCounted: { probes: new Set([...counted, ...probes]), until: Number.POSITIVE_INFINITY },
  };
  return { state, effects: [NO_PROBES, wakeForHolds(state, at), SUBMIT, REMEMBER, REPORT] };
}

/**
 * The interrupted changes are held. Others that waited with them were not tried: they are now, with
 * the same probes.
 */
function unproven(before: GuardState, probes: readonly string[], at: number): GuardStep {
  const why: HoldReason = { kind: 'unproven', probes };
  const { interrupted, proof } = before;
  const keys = new Set(keysOf(interrupted?.changes ?? []));
  const isKnown = keys.size > 0 && proof?.required != null;
  const isHeld = (hold: Hold): boolean => isBrief(hold) && (!isKnown || keys.has(hold.key));
  const changes = before.holds.filter(isHeld).map((hold): Hold => ({ ...hold, why, isBrief: false }));
  const holds = [...before.holds.filter((hold) => !isBrief(hold)), ...heldTogether(changes)];
  const counted = new Set([...(proof?.required ?? []), ...(proof?.passed ?? [])]);
  const lastCounted = isKnown ? { probes: counted, until: Number.POSITIVE_INFINITY } : before.lastCounted;
  const state: GuardState = { ...before, proof: null, interrupted: null, holds, lastCounted };
  const rolledBack: GuardEffect = { kind: 'rolledBack', why, changes };
  return { state, effects: [NO_PROBES, wakeForHolds(state, at), rolledBack, REMEMBER, SUBMIT, REPORT] };
}

function wakeIn(after: number): GuardEffect {
  return { kind: 'wake', after };
}
