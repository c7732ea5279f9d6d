import type { EventOf, GuardState, LastCounted, Trial } from './guard-state.ts';

/**
 * Milliseconds after the confirmed rules are in force again in which the round before an edit may
 * have been made under others.
 */
const SOON = 10_000;

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

/**
 * The round before a change is made under the confirmed rules, soon after both families have them.
 */
export function soon(
  { lastCounted, lacking }: Pick<GuardState, 'lastCounted' | 'lacking'>,
  at: number,
): LastCounted | null {
  if (lastCounted === null || lacking !== null) return lastCounted;
  return { ...lastCounted, until: Math.min(lastCounted.until, at + SOON) };
}

/** Probes that passed under the confirmed rules, before a rollback or in the proof just now. */
function recentlyCounted(lastCounted: LastCounted | null, at: number): Iterable<string> {
  return lastCounted === null || at > lastCounted.until ? [] : lastCounted.probes;
}
