import type { NodeState, RuleSource } from '../../apis/compiled.ts';
import type { GuardConfig } from '../../apis/config.ts';
import type { Family } from '../../lib/net/address.ts';

/** A policy of one state that another state does not have, or has otherwise. */
export interface PolicyChange {
  /** API group/name. */
  readonly key: string;
  /** A digest of its rules, without the generation; null: the policy has none. */
  readonly digest: string | null;
  /** A digest of its rules in the other state. */
  readonly before: string | null;
  /** 0 if it is not known. */
  readonly generation: number;
}

/** The rule that denies a probe's flow. */
export type Fault = Pick<RuleSource, 'apiGroup' | 'policy' | 'generation' | 'rule' | 'ruleIndex'>;

/** Why a policy is held. */
export type HoldReason =
  | { readonly kind: 'probe'; readonly probe: string; readonly fault: Fault | null; readonly error: string }
  /** `guard.confirm: Manual`, and nobody confirmed it; nobody could while a family lacked it. */
  | { readonly kind: 'unconfirmed'; readonly lacking?: Family | null }
  /** The agent ended, or the kernel lost its rules, each time that it was tried. */
  | { readonly kind: 'interrupted' }
  /** It was interrupted, and probes that counted do not pass under the confirmed rules. */
  | { readonly kind: 'unproven'; readonly probes: readonly string[] };

/** A version of a policy that is not applied; the confirmed one is in its place. */
export interface Hold extends PolicyChange {
  readonly why: HoldReason;
  /** Sets that keep their confirmed members: the rules are the same, and members were at fault. */
  readonly sets: readonly string[];
  /** Until the proof is complete; then the version is tried. */
  readonly isBrief: boolean;
  /**
   * No rule denied the probe's flow, and the probe passed after the rollback: an outage may have
   * ended just then. It is tried once more as soon as another rollback for the probe is allowed.
   */
  readonly isUnproven?: true;
  /**
   * Other policies that were taken back with it, any of which may be the cause: when one of them is
   * edited or deleted, this one is tried again. Absent: none.
   */
  readonly because?: readonly string[];
  /** ISO 8601. */
  readonly since: string;
}

/** The state in force, which is not confirmed yet. */
export interface Trial {
  readonly state: NodeState;
  readonly changes: readonly PolicyChange[];
  /** Sets whose members changed, if no rule did. */
  readonly sets: readonly string[];
  /** 2: it was interrupted once, or rolled back without a rule at fault. */
  readonly attempt: number;
  /** Monotonic milliseconds; a state that joins begins anew. */
  readonly since: number;
  /** The probes that passed under the state before, and those of `unmade`. */
  readonly counted: ReadonlySet<string>;
  /** Nobody could make these under the state before; they must be made before it is confirmed. */
  readonly unmade: ReadonlySet<string>;
  /** Rounds in a row in which every counted probe passed, and when the first began. */
  readonly passes: number;
  readonly firstPass: number;
  /** Those of the counted probes that passed in this trial: somebody could make them. */
  readonly made: ReadonlySet<string>;
  /** Counted probes that fail, by name. */
  readonly failing: ReadonlyMap<string, EnforcementFailure>;
}

export interface EnforcementFailure {
  /** When the first attempt began that failed. */
  readonly since: number;
  /** Not rolled back before. */
  readonly notBefore: number;
  readonly error: string;
  readonly fault: Fault | null;
}

/** After a rollback: whether it helped. */
export interface RollbackCheck {
  readonly probe: string;
  /**
   * Monotonic milliseconds: when the confirmed rules were in force, or in force in the last family.
   * Null: they are not in force yet.
   */
  readonly since: number | null;
  /** The policies that were held by the rollback. */
  readonly keys: readonly string[];
  /** That of the trial. */
  readonly attempt: number;
}

/**
 * The probes that passed under the confirmed rules, for a trial that begins soon after a rollback,
 * or after the proof.
 */
export interface LastCounted {
  readonly probes: ReadonlySet<string>;
  /** Monotonic milliseconds. */
  readonly until: number;
}

/** A trial that survives a restart. */
export interface PendingTrial {
  readonly changes: readonly PolicyChange[];
  readonly attempt: number;
  /** The probes that counted; null: not known, as in the file of an older version. */
  readonly counted: readonly string[] | null;
}

/**
 * The kernel may have rules of a trial, under which a failing probe proves nothing. So all changes
 * wait, held briefly, until the confirmed rules are in force and probes pass under them.
 */
export interface Proof {
  /** Must pass, as they counted in an interrupted trial; null: not known, so all probes must. */
  readonly required: ReadonlySet<string> | null;
  /**
   * Monotonic milliseconds: when the confirmed rules were in force, and changes waited. Null: those
   * are not in force yet.
   */
  readonly since: number | null;
  /** Since then. */
  readonly passed: ReadonlySet<string>;
  /** Those that must pass and did not yet; null: no round has ended. */
  readonly missing: readonly string[] | null;
}

/** The complete state of the guard. Only a step makes a new one. */
export interface GuardState {
  /** Null: no state was ever confirmed, which stands for one without rules. */
  readonly confirmed: NodeState | null;
  readonly trial: Trial | null;
  /** Its rules could not be changed: they are of an earlier state. Null: both are as in force. */
  readonly lacking: Family | null;
  /** Interrupted by a restart or a loss, or held without proof, and not tried again yet. */
  readonly interrupted: PendingTrial | null;
  /** Null: the rules in force are known. */
  readonly proof: Proof | null;
  readonly check: RollbackCheck | null;
  /** Null: there was neither in this run, or rules were confirmed since. */
  readonly lastCounted: LastCounted | null;
  readonly holds: readonly Hold[];
  /** Probe name to the time of the last rollback for it (monotonic milliseconds). */
  readonly rollbacks: ReadonlyMap<string, number>;
}

export interface GuardTimes {
  /** Milliseconds, as in the configuration. */
  readonly window: number;
  readonly failAfter: number;
  /** Null: the window confirms; else how long a confirmation by hand is waited for. */
  readonly manual: number | null;
}

export function timesOf({ window, failAfter, confirm, timeout }: GuardConfig): GuardTimes {
  const manual = confirm === 'Manual' ? timeout * 1000 : null;
  return { window: window * 1000, failAfter: failAfter * 1000, manual };
}

/** The results of one round of probes; one that nobody could make is absent. */
export interface ProbeResult {
  readonly probe: string;
  /** Null: it passed. */
  readonly error: string | null;
  /** The rule that denies the probe's flow in the state in force; null: none, or it passed. */
  readonly fault: Fault | null;
}

export type GuardEvent = { readonly at: number; readonly time: string } & (
  | { readonly kind: 'started' }
  | {
      readonly kind: 'wanted';
      /** The digest of a policy in the state that is wanted now. */
      readonly digestOf: (key: string) => string | null;
      /** Against the confirmed state; empty where no proof is waited for. */
      readonly changes: readonly PolicyChange[];
    }
  /** A state is in force. */
  | {
      readonly kind: 'applied';
      readonly state: NodeState;
      readonly isTried: boolean;
      /** Against the confirmed state. */
      readonly changes: readonly PolicyChange[];
      readonly sets: readonly string[];
      /** The probes that passed just before, or were not made then. */
      readonly passed: readonly string[];
      /** Probes to the node that nobody could make under the confirmed rules so far. */
      readonly unmade: readonly string[];
    }
  | { readonly kind: 'round'; readonly began: number; readonly results: readonly ProbeResult[] }
  | {
      readonly kind: 'timer';
      /** The policies (API group/name) of the trial that deny a probe's flow; empty: not known. */
      readonly atFault: (probe: string) => readonly string[];
    }
  /** The rules of a family could not be changed; null: both have the state in force. */
  | { readonly kind: 'family'; readonly lacking: Family | null }
  /** The kernel lost the rules, or they were changed. */
  | { readonly kind: 'lost' }
  /** `nodewall confirm`. */
  | { readonly kind: 'confirm' }
  /** `nodewall retry`; null: all policies. */
  | { readonly kind: 'retry'; readonly policy: string | null }
);

export type GuardEffect =
  /** Saves the confirmed state. */
  | { readonly kind: 'save'; readonly state: NodeState }
  /** Saves trial, holds and rollbacks. */
  | { readonly kind: 'remember' }
  /** Submits again what is wanted, with the holds; an urgent one in this turn of the event loop. */
  | { readonly kind: 'submit'; readonly isUrgent: boolean }
  /** Makes a round of these probes after so many milliseconds; null: of all. None: ends it. */
  | { readonly kind: 'probe'; readonly probes: readonly string[] | null; readonly after: number }
  /** One timer; null: disarms it. */
  | { readonly kind: 'wake'; readonly after: number | null }
  | { readonly kind: 'report' }
  | { readonly kind: 'rolledBack'; readonly why: HoldReason; readonly changes: readonly PolicyChange[] }
  | {
      readonly kind: 'say';
      readonly level: 'info' | 'warn';
      readonly message: string;
      readonly fields: object;
    };

export interface GuardStep {
  readonly state: GuardState;
  readonly effects: readonly GuardEffect[];
}

/** The guard's state that survives a restart, beside the confirmed rules. */
export interface GuardMemory {
  readonly trial: PendingTrial | null;
  readonly holds: readonly Hold[];
  /** Probe name to ISO 8601. */
  readonly rollbacks: Readonly<Record<string, string>>;
  /**
   * The probes of `lastCounted`, while the confirmed rules may not be in force in both families.
   * Absent: they are, or an older version saved it.
   */
  readonly lastCounted?: readonly string[];
}

export type EventOf<K extends GuardEvent['kind']> = Extract<GuardEvent, { kind: K }>;

/** Effects without values, and times, of all steps of guarded apply. */

export const REMEMBER: GuardEffect = { kind: 'remember' };
export const SUBMIT: GuardEffect = { kind: 'submit', isUrgent: false };
/** A repair must not put the state that is tried back first. */
export const SUBMIT_AT_ONCE: GuardEffect = { kind: 'submit', isUrgent: true };
export const REPORT: GuardEffect = { kind: 'report' };
export const NO_PROBES: GuardEffect = { kind: 'probe', probes: [], after: 0 };
export const ALL_PROBES: GuardEffect = { kind: 'probe', probes: null, after: 0 };
export const NO_TIMER: GuardEffect = { kind: 'wake', after: null };

/** Milliseconds in which an outage without a policy at fault costs one rollback for each probe. */
export const ONE_ROLLBACK_IN = 600_000;
/** Milliseconds until the next round after one that failed, at most. */
export const AGAIN = 1_000;
/** Attempts of a trial that is interrupted each time. */
export const MOST_ATTEMPTS = 2;

/** Holds for a state that is applied without being judged. */
export const UNJUDGED = { changes: [], sets: [], passed: [], unmade: [] } as const;

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

/** The same policies, or sets, in the same versions. */
export function sameChanges(a: Pick<Trial, 'changes' | 'sets'>, b: Pick<Trial, 'changes' | 'sets'>): boolean {
  const text = ({ changes, sets }: typeof a): string =>
    JSON.stringify([changes.map(({ key, digest }) => [key, digest]), sets]);
  return text(a) === text(b);
}

/** The same policy, in the same version. */
export function isSame(a: PolicyChange, b: PolicyChange): boolean {
  return a.key === b.key && a.digest === b.digest;
}
