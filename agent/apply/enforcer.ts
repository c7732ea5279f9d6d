import type { NodeState } from '../../apis/compiled.ts';
import { BackOff } from '../../lib/process/back-off.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { RenderError } from '../render/rule-renderer.ts';
import { type Applied, type Reconciler, Refusal } from './dataplane.ts';
import { changedPolicies, policyKey, substitute } from './plan/substitute.ts';

/**
 * What an apply came to; of several, the last one's change and times. What is unswept is tried
 * again by itself.
 */
export interface Enforced extends Applied {
  /** The state that was submitted. */
  readonly wanted: NodeState;
  /**
   * What is in force: the wanted state, with the failed policies in their last good version or left
   * out.
   */
  readonly state: NodeState;
  /** API group/name of each policy that could not be applied, and why. */
  readonly failed: ReadonlyMap<string, Error>;
  /** Until all is done, reading and sweeping included. */
  readonly milliseconds: number;
}

export interface EnforcerEvents {
  enforced(result: Enforced): void;
  /**
   * Nothing could be applied; what was in force still is. Tried again by itself after `retryIn`
   * milliseconds.
   */
  failed(error: Error, retryIn: number): void;
  /**
   * The kernel knows no NFLOG: all is enforced, nothing recorded, and no names are learnt from DNS
   * answers.
   */
  unrecorded(error: Error): void;
  /**
   * What is in force was changed by somebody else, and has been repaired where `enforced` follows.
   */
  drifted(differences: readonly string[]): void;
}

export interface EnforcerParts<Desired> {
  readonly reconciler: Reconciler<Desired>;
  /** @param canLog without it nothing rendered needs the kernel's NFLOG */
  readonly renderer: (canLog: boolean) => (state: NodeState) => Desired;
  readonly events: EnforcerEvents;
  readonly clock: Clock;
  /**
   * What an earlier run last had in force; asked for when a policy is refused before anything was
   * applied.
   */
  readonly lastGood: () => Promise<NodeState | null>;
  /**
   * Called after each apply, before the next, with what failed of it: else what stood there before
   * may go. False: to be tried again later.
   */
  readonly settled?: (failed: Enforced['failed']) => Promise<boolean>;
}

const FIRST_RETRY = 1_000;
const LAST_RETRY = 60_000;

/**
 * Keeps the newest wanted state in force. One apply runs at a time and what is submitted meanwhile
 * is one next apply, so a burst costs two. A policy that can't be applied never takes the others
 * down: its last good version stays, and it is tried again with back-off.
 */
export class Enforcer<Desired> {
  readonly #reconciler: Reconciler<Desired>;
  readonly #renderer: EnforcerParts<Desired>['renderer'];
  #render: (state: NodeState) => Desired;
  #canLog = true;
  readonly #events: EnforcerEvents;
  readonly #clock: Clock;
  readonly #lastGood: () => Promise<NodeState | null>;
  readonly #settled: (failed: Enforced['failed']) => Promise<boolean>;
  #wanted: NodeState | null = null;
  /** What is in force; null before the first apply. */
  #good: NodeState | null = null;
  readonly #pending = { verify: false, apply: false };
  #running: Promise<void> | null = null;
  #closed = false;
  readonly #retries = new BackOff({ first: FIRST_RETRY, longest: LAST_RETRY });
  #cancelRetry: () => void = () => {};

  constructor({ reconciler, renderer, events, clock, lastGood, settled }: EnforcerParts<Desired>) {
    this.#reconciler = reconciler;
    this.#renderer = renderer;
    this.#render = renderer(true);
    this.#events = events;
    this.#clock = clock;
    this.#lastGood = lastGood;
    this.#settled = settled ?? (async () => true);
  }

  /** The newest state wins. */
  submit(state: NodeState): void {
    this.#wanted = state;
    this.#request('apply');
  }

  /** Compare with the kernel, and repair. */
  verify(): void {
    this.#request('verify');
  }

  /** Settles once nothing is pending; a retry that waits for its time doesn't count. */
  async idle(): Promise<void> {
    while (this.#running !== null) await this.#running;
  }

  /** Lets a running apply end, and starts no other. Rules stay. */
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
    const wanted = this.#wanted;
    if (wanted === null) return;
    const started = this.#clock.now();
    const result = await this.#applyWithout(wanted);
    this.#good = result.state;
    this.#events.enforced({ ...result, wanted, milliseconds: this.#clock.now() - started });
    const isSettled = await this.#settled(result.failed);
    const isDone = isSettled && result.failed.size === 0 && result.unswept === null;
    if (isDone) this.#retries.reset();
    else this.#scheduleRetry(() => {});
  }

  /**
   * Applies the state; a policy that is refused is replaced by its last good version, then by
   * nothing.
   */
  async #applyWithout(wanted: NodeState): Promise<Omit<Enforced, 'milliseconds' | 'wanted'>> {
    const failed = new Map<string, Error>();
    let state = wanted;
    for (;;) {
      try {
        return { state, failed, ...(await this.#reconciler.apply(this.#render(state))) };
      } catch (error) {
        // What isn't a refusal (a dump that failed) says nothing about policies: the whole is tried
        // again later.
        if (!(error instanceof Refusal || error instanceof RenderError)) throw error;
        if (error instanceof Refusal && error.lacksLog && this.#canLog) {
          this.#renderWithoutLog(error);
          continue;
        }
        const { source } = error;
        if (source === null) return await this.#applyOneByOne(wanted, error);
        const key = `${source.apiGroup}/${source.policy}`;
        if (!state.rules.some((rule) => policyKey(rule) === key)) throw error;
        state = substitute(state, key, failed.has(key) ? null : await this.#goodState());
        failed.set(key, failed.get(key) ?? error);
      }
    }
  }

  /** Till the agent is started again. */
  #renderWithoutLog(error: Refusal): void {
    this.#canLog = false;
    this.#render = this.#renderer(false);
    this.#events.unrecorded(error);
  }

  async #goodState(): Promise<NodeState | null> {
    return this.#good ?? (await this.#lastGood());
  }

  /**
   * The kernel didn't say which rule it refused: every changed policy is taken back to its last
   * good version, then each is tried by itself. Where no good state is known and rules are there,
   * that would open what the table closes: nothing is touched.
   */
  async #applyOneByOne(wanted: NodeState, first: Error): Promise<Omit<Enforced, 'milliseconds' | 'wanted'>> {
    const good = await this.#goodState();
    const suspects = changedPolicies(wanted, good);
    if (suspects.length === 0 || (good === null && (await this.#reconciler.holdsRules()))) throw first;
    const failed = new Map<string, Error>();
    let state = suspects.reduce((rest, key) => substitute(rest, key, good), wanted);
    let applied = await this.#reconciler.apply(this.#render(state));
    for (const key of suspects) {
      const next = substitute(state, key, wanted);
      try {
        applied = await this.#reconciler.apply(this.#render(next));
        state = next;
      } catch (error) {
        failed.set(key, toError(error));
      }
    }
    // What a refused trial left over goes, and the state said to be in force is.
    const last = suspects.at(-1);
    if (last !== undefined && failed.has(last)) {
      applied = await this.#reconciler.apply(this.#render(state));
    }
    return { state, failed, ...applied };
  }

  #scheduleRetry(announce: (retryIn: number) => void): void {
    this.#cancelRetry();
    const retryIn = this.#retries.next();
    this.#cancelRetry = this.#clock.after(retryIn, () => this.#request('apply'));
    announce(retryIn);
  }
}

function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
