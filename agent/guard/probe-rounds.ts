import type { NodeState } from '../../apis/compiled.ts';
import type { Config, GuardConfig } from '../../apis/config.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { AGAIN, type Fault, type ProbeResult } from './guard-state.ts';
import type { InwardProbes } from './inward-probes.ts';
import { outward, type Probe, probeRound } from './probes.ts';
import { faults } from './verdicts.ts';

export interface ProbeRoundsOptions {
  readonly config: Config;
  readonly clock: Clock;
  /** All probes of this agent, inward ones too. */
  readonly probes: () => readonly Probe[];
  /** Null: no probe is made from outside. */
  readonly inward: Pick<InwardProbes, 'round'> | null;
  /** Compares the kernel with the rules in force, and repairs it. */
  readonly verify: () => Promise<void>;
  /**
   * Whether the deadline of the rules that are tried has not passed until now, since they are in
   * force; false also where that is not known. Where it has, `deadlinePassed` is called first.
   */
  readonly isInTime: () => Promise<boolean>;
  /** Whether the rules in force are tried; else they are confirmed. */
  readonly isTrial: () => boolean;
  /** The state in force, with what the node adds; null: there is none yet. */
  readonly inForce: () => NodeState | null;
  /** The one confirmed last, likewise. */
  readonly confirmed: () => NodeState | null;
  /** @param began when the round did (monotonic milliseconds) */
  readonly done: (began: number, results: readonly ProbeResult[]) => void;
}

const LONGEST_ATTEMPT = 3_000;

/** Milliseconds that an attempt has in a round. */
export function longestAttempt({ failAfter }: GuardConfig): number {
  return Math.min(LONGEST_ATTEMPT, failAfter * 500);
}

/** By probe: null if it passed, else the reason. */
type Errors = ReadonlyMap<string, string | null>;

const NONE: Errors = new Map();

/**
 * The rounds of probes after a change: each shows how the rules in force treat the probes' flows.
 * One round waits or is in progress at a time, and the results of one that was replaced are
 * dropped.
 */
export class ProbeRounds {
  readonly #options: ProbeRoundsOptions;
  #cancelTimer = (): void => {};
  /** Counts rounds, to find those that were replaced. */
  #round = 0;

  constructor(options: ProbeRoundsOptions) {
    this.#options = options;
  }

  /**
   * Replaces the last round by one of these probes, in so many milliseconds; null: of all that are
   * known. No probes: by none.
   */
  arm(names: readonly string[] | null, after: number): void {
    this.cancel();
    if (names?.length === 0) return;
    const round = this.#round;
    this.#cancelTimer = this.#options.clock.after(after, () => void this.#make(names, round));
  }

  /** The round that waits or is in progress is dropped. */
  cancel(): void {
    this.#cancelTimer();
    this.#round++;
  }

  async #make(asked: readonly string[] | null, round: number): Promise<void> {
    const { config, clock, probes, inward, verify, isInTime, isTrial, done } = this.#options;
    const began = clock.now();
    const wanted = probes().filter(({ name }) => asked?.includes(name) ?? true);
    const names = asked ?? wanted.map(({ name }) => name);
    const patience = { milliseconds: longestAttempt(config.guard) };
    const [own, others = NONE] = await Promise.all([
      probeRound(outward(wanted), patience),
      inward?.round(names, isTrial()),
    ]);
    const errors = [...own.values(), ...others.values()];
    const isProof = isTrial() ? errors.every((error) => error === null) : errors.includes(null);
    // A probe that passes proves something of these rules only if the kernel has them.
    if (round === this.#round && isProof) await verify();
    // A probe that passed past the deadline proves nothing, nor does one that may have.
    const isKnown = round !== this.#round || !isTrial() || (await isInTime());
    if (round !== this.#round) return;
    const results = this.#results(names, wanted, { own, others });
    // A probe that failed counts in any case.
    const counted = isKnown ? results : results.filter(({ error }) => error !== null);
    if (!isKnown && counted.length === 0) return this.arm(asked, AGAIN);
    done(began, counted);
  }

  #results(
    names: readonly string[],
    wanted: readonly Probe[],
    { own, others }: { readonly own: Errors; readonly others: Errors },
  ): ProbeResult[] {
    const { isTrial } = this.#options;
    const errorOf = (name: string): string | null => own.get(name) ?? others.get(name) ?? null;
    const failed = wanted.filter(({ name }) => errorOf(name) !== null);
    const denied = failed.length === 0 || !isTrial() ? new Map() : this.#faults(failed);
    const isMade = (name: string): boolean =>
      others.has(name) || !wanted.some((probe) => probe.name === name && probe.kind === 'inward');
    // A probe that is no longer known, as of a server that was removed, proves nothing: it passes.
    return names.filter(isMade).map((probe): ProbeResult => {
      return { probe, error: errorOf(probe), fault: denied.get(probe) ?? null };
    });
  }

  /** The rules that deny these probes, where none did that is confirmed. */
  #faults(failed: readonly Probe[]): ReadonlyMap<string, Fault> {
    const { config, inForce, confirmed } = this.#options;
    const now = inForce();
    const denied = now === null ? new Map<string, Fault>() : faults(failed, now, config);
    const before = denied.size === 0 ? null : confirmed();
    if (before === null) return denied;
    const deniedBefore = faults(failed, before, config);
    return new Map([...denied].filter(([name]) => !deniedBefore.has(name)));
  }
}

interface RoundBeforeOptions {
  readonly clock: Clock;
  /** All probes of this agent; inward ones can't be made before a change without delaying it. */
  readonly probes: () => readonly Probe[];
}

/** A round, and the states before which it was made: from one number to another. */
interface Round {
  readonly at: number;
  readonly first: number;
  readonly last: number;
  readonly results: Promise<Errors>;
}

/**
 * Milliseconds that the round before a change has, and in which its connections must be made: less
 * than until TCP sends a packet again, which the new rules would judge.
 */
const BEFORE = { milliseconds: 2_000, connectWithin: 900 };

/**
 * The probes that pass under the rules in force, just before others are: these count in a trial.
 * States are judged later than they are submitted, and others may be submitted meanwhile: each has
 * its own rounds.
 */
export class RoundBefore {
  readonly #options: RoundBeforeOptions;
  #rounds: readonly Round[] = [];
  #newest = 0;

  constructor(options: RoundBeforeOptions) {
    this.#options = options;
  }

  /**
   * Makes a round before a state, whose packets leave in this turn of the event loop; once for a
   * burst of states, unless the confirmed one was among them: then the rules in force are others.
   * Returns the state's number.
   */
  make(): number {
    const last = this.skip();
    const at = this.#options.clock.now();
    const latest = this.#rounds.at(-1);
    if (latest?.last === last - 1 && at < latest.at + BEFORE.connectWithin)
      this.#rounds = [...this.#rounds.slice(0, -1), { ...latest, last }];
    else this.#rounds = [...this.#rounds, { at, first: last, last, results: this.#resultsNow() }];
    return last;
  }

  /** A state that is never tried, such as the confirmed one after a rollback, needs no round. */
  skip(): number {
    return ++this.#newest;
  }

  /**
   * The probes that were made before a state, or before others that are not judged yet. One that
   * passed in any of the rounds has passed.
   * @param number of the state; null: the newest
   */
  async results(number: number | null): Promise<Errors> {
    const newest = number ?? this.#newest;
    const own = this.#rounds.filter(({ first }) => first <= newest);
    const all = (await Promise.all(own.map(({ results }) => results))).flatMap((one) => [...one]);
    return new Map([...all, ...all.filter(([, error]) => error === null)]);
  }

  /** The state is judged: what passed before it says nothing about later ones. */
  forget(number: number | null): void {
    const newest = number ?? this.#newest;
    this.#rounds = this.#rounds.filter(({ last }) => last > newest);
  }

  #resultsNow(): Promise<Errors> {
    return probeRound(outward(this.#options.probes()), BEFORE);
  }
}
