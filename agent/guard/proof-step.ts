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
  NO_PROBES,
  type Proof,
  REMEMBER,
  REPORT,
  SUBMIT,
} from './guard-state.ts';
import { heldTogether, isBrief, keysOf, wakeForHolds } from './held-step.ts';

/**
 * Steps of guarded apply before a trial, where the kernel may have had rules that are not
 * confirmed: all changes wait until the confirmed ones are in force, and the probes that counted
 * have passed under them.
 */

/** The confirmed rules are not known to be in force. */
export function proofOf(required: Iterable<string> | null): Proof {
  return {
    required: required === null ? null : new Set(required),
    ...{ since: null, passed: new Set(), missing: null },
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
