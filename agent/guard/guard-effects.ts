import type { GuardEffect } from './guard-state.ts';

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
export const NOTHING = { changes: [], sets: [], passed: [], unmade: [] } as const;
