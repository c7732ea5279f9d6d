import type { EventOf, GuardState, GuardTimes, LastCounted, Trial } from './guard-state.ts';

/**
 * Milliseconds after the confirmed rules are in force again in which the round before an edit may
 * have been made under others.
 */
const SOON = 10_000;
/** Rounds in a row that confirm. */
export const ROUNDS = 3;
/** Times `failAfter` that a probe which nobody can make is waited for, after the window. */
const UNMADE = 2;

/**
 * Those that passed under the rules before, those of a trial that this one joins, and those that
 * nobody could make.
 */
export function countedIn(
  { at, passed, unmade }: EventOf<'applied'>,
  { trial, lastCounted }: Pick<GuardState, 'trial' | 'lastCounted'>,
): Pick<Trial, 'counted' | 'unmade'> {
  const known = new Set([
    ...(trial === null ? recentlyCounted(lastCounted, at) : requiredOf(trial)),
    ...passed,
  ]);
  const others = [...(trial?.unmade ?? []), ...unmade].filter((name) => !known.has(name));
  return { counted: new Set([...known, ...others]), unmade: new Set(others) };
}

/** The probes that must pass under the confirmed rules before this trial is repeated. */
export function requiredOf({ counted, unmade }: Pick<Trial, 'counted' | 'unmade'>): readonly string[] {
  return [...counted].filter((name) => !unmade.has(name));
}

/** Whether each probe that counts has been made, and passed, under the rules that are tried. */
export function isMade({ counted, made }: Trial): boolean {
  return [...counted].every((name) => made.has(name));
}

/** Whether the probes confirm the trial. */
export function isDone(trial: Trial, at: number, { window, failAfter, manual }: GuardTimes): boolean {
  const { passes, firstPass, since } = trial;
  if (manual !== null || passes < ROUNDS || at - firstPass < window) return false;
  // A busy prober may not have had the time yet, above all where each attempt waits for no answer.
  return isMade(trial) || at - since >= window + UNMADE * failAfter;
}

/**
 * The round before a change is made under the confirmed rules, soon after both families have them.
 */
export function soon(
  { lastCounted, lacking }: Pick<GuardState, 'lastCounted' | 'lacking'>,
  at: number,
): LastCounted | null {
  if (lastCounted === null || lacking !== null || lastCounted.until <= at + SOON) return lastCounted;
  return { ...lastCounted, until: at + SOON };
}

/** Probes that passed under the confirmed rules, before a rollback or in the proof just now. */
function recentlyCounted(lastCounted: LastCounted | null, at: number): Iterable<string> {
  return lastCounted === null || at > lastCounted.until ? [] : lastCounted.probes;
}
