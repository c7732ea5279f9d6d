import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Deadline, NodeState } from '../../apis/compiled.ts';
import type { Config, FailsafeEntry, GuardConfig } from '../../apis/config.ts';
import type { Log } from '../../lib/process/log.ts';
import type { GuardState, PolicyChange } from './guard-state.ts';
import { policyChanges } from './holds.ts';
import { flowsOf, outward, type Probe } from './probes.ts';
import {
  changesMayDeny,
  faults,
  type JudgedAs,
  type JudgedState,
  judgedAs,
  policiesAtFault,
  touchedSets,
} from './verdicts.ts';

export interface StateVerdict extends JudgedAs {
  /** The probes that count, of a state that is tried. */
  readonly passed: readonly string[];
}

export interface JudgementOptions {
  readonly node: string;
  readonly config: Config;
  readonly log: Log;
  /** All probes of this agent, inward ones too. */
  readonly probes: () => readonly Probe[];
  /** The state with what this node adds: addresses of names, local pods. */
  readonly resolve: (state: NodeState) => NodeState;
  /** The state confirmed last; null: none ever was. */
  readonly confirmed: () => NodeState | null;
  /** The probes that were made before a state: null for each that passed, else the reason. */
  readonly before: (judged: JudgedState) => Promise<ReadonlyMap<string, string | null>>;
  /** The newest state in force is judged. */
  readonly done: (judged: JudgedState, verdict: StateVerdict) => void;
}

/** The probes that count in a trial, by name. */
interface Counting {
  /** They passed before it, or were not made then. */
  readonly passing: readonly string[];
  /** They failed before it, though not the last time, and it denies them. */
  readonly denied: readonly string[];
}

const NONE: Counting = { passing: [], denied: [] };

/**
 * Whether the state in force is tried, or confirmed as it is: by its difference from the confirmed
 * one. The state is in force meanwhile, and others may follow; only the newest is judged.
 */
export class Judgement {
  readonly #options: JudgementOptions;
  #inForce: JudgedState | null = null;
  #running: Promise<void> | null = null;
  #changes: readonly PolicyChange[] = [];
  /** The probes that passed before the state that was tried last, or were not made then. */
  #passing: readonly string[] = [];
  /** The sets that have a probe's address otherwise than in the confirmed state. */
  #touched: { state: NodeState; confirmed: NodeState | null; sets: readonly string[] } | null = null;

  constructor(options: JudgementOptions) {
    this.#options = options;
  }

  /** Null: no state is in force yet. */
  get inForce(): JudgedState | null {
    return this.#inForce;
  }

  /** Resolves when the newest state is judged; null: it is, or needs not be. */
  get running(): Promise<void> | null {
    return this.#running;
  }

  /** The changes of the state that is judged: it is not confirmed either. Empty: none is judged. */
  get changes(): readonly PolicyChange[] {
    return this.#changes;
  }

  /**
   * Returns whether another state was in force before: else addresses changed, or it is a repair.
   */
  applied(now: JudgedState): boolean {
    const last = this.#inForce;
    this.#inForce = now;
    return last?.plain !== now.plain;
  }

  /** Judges the state in force, in a later turn of the event loop. */
  begin(): void {
    if (this.#inForce === null) return;
    this.#changes = policyChanges(this.#options.confirmed(), this.#inForce.plain);
    this.#running ??= this.#judge();
  }

  /**
   * Ids of the sets that have a probe's address otherwise than in the confirmed state. Kept for the
   * last state, because it is asked when a state is submitted, and again when it is in force.
   */
  touched(state: NodeState): readonly string[] {
    const confirmed = this.#options.confirmed();
    if (this.#touched?.state === state && this.#touched.confirmed === confirmed) return this.#touched.sets;
    const sets = touchedSets(this.#options.probes, confirmed, state);
    this.#touched = { state, confirmed, sets };
    return sets;
  }

  /** The policies among these changes because of which a rule denies a probe; empty: not known. */
  atFault(name: string, changes: readonly PolicyChange[]): readonly string[] {
    const { probes, confirmed, config } = this.#options;
    const probe = probes().find((one) => one.name === name);
    if (probe === undefined || this.#inForce === null) return [];
    try {
      return policiesAtFault(probe, { state: this.#inForce.resolved, before: confirmed(), changes, config });
    } catch (error) {
      this.#bug(error, 'all policies that were tried are held');
      return [];
    }
  }

  async #judge(): Promise<void> {
    for (;;) {
      await nextTurn();
      const judged = this.#inForce;
      if (judged === null) return;
      const confirmed = this.#options.confirmed();
      const changes = policyChanges(confirmed, judged.plain);
      const sets = changes.length === 0 ? this.touched(judged.plain) : [];
      const verdict = this.#verdict(judged, changes, sets);
      const { passing, denied } = verdict.isTried ? await this.#counting(judged, confirmed) : NONE;
      if (judged !== this.#inForce || confirmed !== this.#options.confirmed()) continue;
      if (verdict.isTried) this.#passing = passing;
      this.#running = null;
      this.#changes = [];
      this.#options.done(judged, { ...verdict, passed: [...passing, ...denied] });
      return;
    }
  }

  /**
   * Those that passed before, and those that nobody made then: what is not known to have failed
   * could be cut off by the change, unless the confirmed rules deny it. One that failed may have
   * done so by chance, or on a busy machine: it counts if it passed the last time, and the change
   * denies it.
   */
  async #counting(judged: JudgedState, confirmed: NodeState | null): Promise<Counting> {
    const { before, probes } = this.#options;
    const made = await before(judged);
    const passed = [...made].filter(([, error]) => error === null).map(([name]) => name);
    const others = outward(probes()).filter(({ name }) => !passed.includes(name));
    const deniedBefore = this.#deniedBy(confirmed, others);
    const possible = others.filter(({ name }) => !deniedBefore.has(name));
    const unmade = possible.filter(({ name }) => !made.has(name)).map(({ name }) => name);
    const failed = possible.filter(({ name }) => made.has(name) && this.#passing.includes(name));
    return { passing: [...passed, ...unmade], denied: [...this.#deniedBy(judged.plain, failed).keys()] };
  }

  #deniedBy(state: NodeState | null, probes: readonly Probe[]): ReadonlyMap<string, unknown> {
    const { config, resolve } = this.#options;
    if (state === null || probes.length === 0) return new Map();
    try {
      return faults(probes, resolve(state), config);
    } catch (error) {
      this.#bug(error, 'probes that rules deny may count, or not');
      return new Map();
    }
  }

  /** A bug in what is computed here must not end the agent: then the state is tried. */
  #verdict(judged: JudgedState, changes: readonly PolicyChange[], sets: readonly string[]): JudgedAs {
    const { config, resolve, probes } = this.#options;
    const confirmed = this.#options.confirmed();
    try {
      const before = confirmed === null ? null : resolve(confirmed);
      return judgedAs({ ...judged, before, changes, sets, probes, config });
    } catch (error) {
      this.#bug(error, 'the rules in force are tried');
      return { isTried: true, changes, sets };
    }
  }

  #bug(error: unknown, result: string): void {
    const { log, node } = this.#options;
    const fields = { node, stage: 'guard', error: (error as Error).stack };
    log.error(`internal error; ${result}. Please report it`, fields);
  }
}

/** Seconds: more than a restart of the agent takes, and less than a minute until a node is back. */
const SHORTEST = 20;
const LONGEST = 45;

interface TrialDeadlineOptions {
  readonly config: Config;
  /** All probes of this agent, inward ones too. */
  readonly probes: () => readonly Probe[];
  /** API servers and controllers, whatever the configuration's failsafe list is. */
  readonly controlPlane: () => readonly FailsafeEntry[];
  /** Ids of the sets that have a probe's address otherwise than in the confirmed state. */
  readonly touched: (state: NodeState) => readonly string[];
}

type Known = Pick<GuardState, 'confirmed' | 'trial'>;

/**
 * The deadline of states that are tried, or may be: whether one is tried is known only once it is
 * in force, and the deadline comes with it, in one transaction.
 */
export class TrialDeadline {
  readonly #options: TrialDeadlineOptions;
  #last: { readonly from: NodeState; readonly text: string; readonly to: NodeState } | null = null;

  constructor(options: TrialDeadlineOptions) {
    this.#options = options;
  }

  /** The state as it is submitted: the same object again if nothing is different. */
  over(state: NodeState, known: Known): NodeState {
    const deadline = this.#of(state, known);
    const text = JSON.stringify(deadline);
    const last = this.#last;
    if (last?.from === state && last.text === text) return last.to;
    const to = deadline === null ? state : { ...state, deadline };
    this.#last = { from: state, text, to };
    return to;
  }

  #of(state: NodeState, { confirmed, trial }: Known): Deadline | null {
    const { config, probes, controlPlane, touched } = this.#options;
    const changes = policyChanges(confirmed, state);
    const isTriedOrMay = (): boolean => trial !== null || changesMayDeny(confirmed, state, changes);
    if (touched(state).length === 0 && (changes.length === 0 || !isTriedOrMay())) return null;
    // Which ones count is not known before the trial.
    const counted = probes().filter(({ name }) => trial === null || trial.counted.has(name));
    return {
      milliseconds: deadlineAfter(config.guard),
      entries: controlPlane(),
      flows: counted.flatMap(flowsOf),
    };
  }
}

/** Milliseconds until the deadline, from when the agent moves it. */
export function deadlineAfter({ failAfter }: Pick<GuardConfig, 'failAfter'>): number {
  return 1000 * Math.min(LONGEST, Math.max(SHORTEST, Math.ceil(2 * failAfter)));
}
