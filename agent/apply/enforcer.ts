import type { NodeState } from '../../apis/compiled.ts';
import { BackOff } from '../../lib/process/back-off.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { toError } from '../../lib/sharing/error.ts';
import { RenderError } from '../render/rule-chain.ts';
import { changedPolicies, type Envelope, type Forms, policyKey, substituteForms } from './envelope.ts';
import { type Applied, type Reconciler, RefusedError } from './reconciler-interface.ts';

/**
 * The state in force: the submitted one, with the failed policies in their last good version or
 * left out. If that took several applies, `change` and the times are those of the last one. If
 * left-overs could not be removed, the enforcer tries again.
 */
export interface Enforced extends Applied, Forms {
  /** As it was submitted. */
  readonly envelope: Envelope;
  /** The error of each policy that could not be applied, by API group/name. */
  readonly failed: ReadonlyMap<string, Error>;
  /** Total time, including reading the kernel and garbage collection. */
  readonly milliseconds: number;
}

export interface EnforcerEvents {
  enforced(result: Enforced): void;
  /**
   * Nothing could be applied, and the rules in force before stay; or, with a FamilyError and after
   * `enforced`, those of one family. The enforcer retries after `retryIn` milliseconds.
   */
  failed(error: Error, retryIn: number): void;
  /**
   * The kernel has no NFLOG: everything is enforced, but nothing is recorded, and no names are
   * learnt from DNS answers.
   */
  unrecorded(error: Error): void;
  /** A third party changed the rules in force. If `enforced` follows, they have been repaired. */
  drifted(differences: readonly string[]): void;
}

export interface EnforcerOptions<Desired> {
  readonly reconciler: Reconciler<Desired>;
  /** @param canLog if false, the rendered rules don't need the kernel's NFLOG */
  readonly renderer: (canLog: boolean) => (state: NodeState) => Desired;
  readonly events: EnforcerEvents;
  readonly clock: Clock;
  /**
   * Reads the state that an earlier run last had in force. Called when a policy is refused before
   * anything was applied.
   */
  readonly lastGood: () => Promise<Forms | null>;
  /**
   * Called after each successful apply, before the next one, with the policies that failed. If none
   * failed, the left-overs may be removed. Resolves with false if it has to be tried again later.
   */
  readonly settled?: (failed: Enforced['failed']) => Promise<boolean>;
  /**
   * Called before the first apply where the kernel holds no rules of ours. `track` puts the state
   * without its rules in force: connections are tracked from then on, and none is judged yet.
   */
  readonly beforeFirst?: (track: () => Promise<unknown>) => Promise<void>;
}

const FIRST_RETRY = 1_000;
const LAST_RETRY = 60_000;

/**
 * Keeps the newest submitted state in force. One apply runs at a time; states submitted meanwhile
 * are combined in one next apply, so a burst costs two. A policy that can't be applied doesn't
 * affect the others: its last good version stays, and it is retried with back-off.
 */
export class Enforcer<Desired> {
  readonly #reconciler: Reconciler<Desired>;
  readonly #renderer: EnforcerOptions<Desired>['renderer'];
  #render: (state: NodeState) => Desired;
  #canLog = true;
  readonly #events: EnforcerEvents;
  readonly #clock: Clock;
  readonly #lastGood: () => Promise<Forms | null>;
  readonly #settled: (failed: Enforced['failed']) => Promise<boolean>;
  readonly #beforeFirst: EnforcerOptions<Desired>['beforeFirst'];
  /** The kernel held no rules of ours when this run began. */
  #beganEmpty = false;
  #submitted: Envelope | null = null;
  /** The state in force; null before the first apply. */
  #good: Forms | null = null;
  readonly #pending = { verify: false, apply: false };
  #running: Promise<void> | null = null;
  #closed = false;
  readonly #retries = new BackOff({ first: FIRST_RETRY, longest: LAST_RETRY });
  #cancelRetry: () => void = () => {};

  constructor(options: EnforcerOptions<Desired>) {
    const { renderer, settled = async () => true } = options;
    this.#reconciler = options.reconciler;
    this.#renderer = renderer;
    this.#render = renderer(true);
    this.#events = options.events;
    this.#clock = options.clock;
    this.#lastGood = options.lastGood;
    this.#settled = settled;
    this.#beforeFirst = options.beforeFirst;
  }

  /** Enforces a state. The newest state wins. */
  submit(envelope: Envelope): void {
    this.#submitted = envelope;
    this.#request('apply');
  }

  /** Compares the kernel with the ruleset applied last, and repairs differences. */
  verify(): void {
    this.#request('verify');
  }

  /** Resolves once nothing is pending. A scheduled retry doesn't count. */
  async idle(): Promise<void> {
    while (this.#running !== null) await this.#running;
  }

  /** Waits for a running apply, and starts no other. Rules stay. */
  async close(): Promise<void> {
    this.#closed = true;
    Object.assign(this.#pending, { verify: false, apply: false });
    await this.idle();
    this.#cancelRetry();
  }

  #request(what: 'verify' | 'apply'): void {
    if (this.#closed) return;
    this.#pending[what] = true;
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
    });
  }

  async #run(): Promise<void> {
    while (this.#pending.verify || this.#pending.apply) {
      const { verify, apply } = this.#pending;
      Object.assign(this.#pending, { verify: false, apply: false });
      try {
        const differs = verify && (await this.#differs());
        if (!apply && !differs) continue;
        this.#cancelRetry();
        await this.#enforce();
      } catch (error) {
        this.#scheduleRetry((retryIn) => this.#events.failed(toError(error), retryIn));
      }
    }
  }

  async #differs(): Promise<boolean> {
    const differences = await this.#reconciler.verify();
    if (differences.length > 0) this.#events.drifted(differences);
    return differences.length > 0;
  }

  async #enforce(): Promise<void> {
    const envelope = this.#submitted;
    if (envelope === null) return;
    const started = this.#clock.now();
    const first = this.#good === null ? await this.#trackFirst(envelope.resolved) : null;
    const applied = await this.#applyWithout(envelope);
    const result = first !== null && applied.change.isEmpty ? { ...applied, change: first.change } : applied;
    this.#good = { plain: result.plain, resolved: result.resolved };
    this.#events.enforced({ ...result, envelope, milliseconds: this.#clock.now() - started });
    const { failedFamily = null } = result;
    if (failedFamily !== null) {
      this.#scheduleRetry((retryIn) => this.#events.failed(failedFamily, retryIn));
      return;
    }
    const isSettled = await this.#settled(result.failed);
    const isDone = isSettled && result.failed.size === 0 && result.leftBehind === null;
    if (isDone) this.#retries.reset();
    else this.#scheduleRetry(() => {});
  }

  /** Before the first rules. Null: nothing was applied. */
  async #trackFirst(state: NodeState): Promise<Applied | null> {
    if (this.#beforeFirst === undefined || this.#beganEmpty) return null;
    if (await this.#reconciler.holdsRules()) return null;
    let applied: Applied | null = null;
    await this.#beforeFirst(async () => {
      applied = await this.#reconciler.apply(this.#render({ ...state, rules: [] }));
    });
    this.#beganEmpty = true;
    return applied;
  }

  /**
   * Applies the state. If a policy is refused, replaces it by its last good version; if that is
   * refused too, leaves it out.
   */
  async #applyWithout({ plain, resolved }: Forms): Promise<Result> {
    const failed = new Map<string, Error>();
    const submitted = { plain, resolved };
    let forms: Forms = submitted;
    for (;;) {
      try {
        return { ...forms, failed, ...(await this.#apply(forms)) };
      } catch (error) {
        // An error other than a refusal (such as a failed dump) is not caused by a policy: the
        // whole state is retried later.
        if (!(error instanceof RefusedError || error instanceof RenderError)) throw error;
        if (error instanceof RefusedError && error.lacksLog && this.#canLog) {
          this.#renderWithoutLog(error);
          continue;
        }
        const { source } = error;
        if (source === null) return await this.#applyOneByOne(submitted, error);
        const key = `${source.apiGroup}/${source.policy}`;
        if (!forms.resolved.rules.some((rule) => policyKey(rule) === key)) throw error;
        forms = substituteForms(forms, key, failed.has(key) ? null : await this.#goodState());
        failed.set(key, failed.get(key) ?? error);
      }
    }
  }

  /** In effect until the agent is restarted. */
  #renderWithoutLog(error: RefusedError): void {
    this.#canLog = false;
    this.#render = this.#renderer(false);
    this.#events.unrecorded(error);
  }

  async #goodState(): Promise<Forms | null> {
    return this.#good ?? (await this.#lastGood());
  }

  /**
   * Used if the kernel didn't say which rule it refused: takes every changed policy back to its
   * last good version, then tries each one by itself. If no good state is known and the kernel
   * holds rules, removing the changed policies could open what the table closes, so nothing is
   * touched.
   */
  async #applyOneByOne(submitted: Forms, first: Error): Promise<Result> {
    const good = await this.#goodState();
    const suspects = changedPolicies(submitted.resolved, good?.resolved ?? null);
    if (suspects.length === 0 || (good === null && (await this.#mayHoldRules()))) throw first;
    const failed = new Map<string, Error>();
    let forms = suspects.reduce((rest, key) => substituteForms(rest, key, good), submitted);
    let applied = await this.#apply(forms);
    for (const key of suspects) {
      const next = substituteForms(forms, key, submitted);
      try {
        applied = await this.#apply(next);
        forms = next;
      } catch (error) {
        failed.set(key, toError(error));
      }
    }
    // Removes the left-overs of a refused trial, and makes sure that `forms` is what is in force.
    const last = suspects.at(-1);
    if (last !== undefined && failed.has(last)) {
      applied = await this.#apply(forms);
    }
    return { ...forms, failed, ...applied };
  }

  #apply({ resolved }: Forms): Promise<Applied> {
    return this.#reconciler.apply(this.#render(resolved));
  }

  /** Whether an earlier run may have rules in force. */
  async #mayHoldRules(): Promise<boolean> {
    return !this.#beganEmpty && (await this.#reconciler.holdsRules());
  }

  #scheduleRetry(announce: (retryIn: number) => void): void {
    this.#cancelRetry();
    const retryIn = this.#retries.next();
    this.#cancelRetry = this.#clock.after(retryIn, () => this.#request('apply'));
    announce(retryIn);
  }
}

type Result = Omit<Enforced, 'milliseconds' | 'envelope'>;
