import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { RenderError, renderer } from '../render/render.ts';
import type { Ruleset } from '../render/ruleset.ts';
import { ApplyError, type NodeRuleReconciler } from './reconciler.ts';
import { changedPolicies, policyKey, substitute } from './substitute.ts';
import type { Transaction } from './transaction.ts';

/** What an apply came to. */
export interface Enforced {
  /** What is in force: the wanted state, with the failed policies in their last good version or left out. */
  readonly state: NodeState;
  /** API group/name of each policy that could not be applied, and why. */
  readonly failed: ReadonlyMap<string, Error>;
  readonly transaction: Transaction;
  readonly milliseconds: number;
}

export interface EnforcerEvents {
  enforced(result: Enforced): void;
  /** Nothing could be applied; what was in force still is. Tried again by itself after `retryIn` milliseconds. */
  failed(error: Error, retryIn: number): void;
  /** The table was changed by somebody else, and has been repaired where `enforced` follows. */
  drifted(differences: readonly string[]): void;
}

export interface Clock {
  now(): number;
  /** Calls back once; returns what cancels it. */
  after(milliseconds: number, callback: () => void): () => void;
}

const FIRST_RETRY = 1_000;
const LAST_RETRY = 60_000;

/**
 * Keeps the newest wanted state in force. One apply runs at a time and what is submitted meanwhile is one next apply, so a
 * burst costs two. A policy that can't be applied never takes the others down: its last good version stays, and it is tried again with
 * back-off.
 */
export class Enforcer {
  readonly #reconciler: NodeRuleReconciler;
  readonly #render: (state: NodeState) => Ruleset;
  readonly #events: EnforcerEvents;
  readonly #clock: Clock;
  #wanted: NodeState | null = null;
  #good: NodeState | null = null;
  #pending: 'nothing' | 'verify' | 'apply' = 'nothing';
  #running: Promise<void> | null = null;
  #closed = false;
  #retry = FIRST_RETRY;
  #cancelRetry: () => void = () => {};

  constructor(parts: {
    reconciler: NodeRuleReconciler;
    config: Config;
    events: EnforcerEvents;
    clock: Clock;
  }) {
    this.#reconciler = parts.reconciler;
    this.#render = renderer(parts.config);
    this.#events = parts.events;
    this.#clock = parts.clock;
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
    this.#pending = 'nothing';
    await this.idle();
    this.#cancelRetry();
  }

  #request(what: 'verify' | 'apply'): void {
    if (this.#closed) return;
    if (this.#pending !== 'apply') this.#pending = what;
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
    });
  }

  async #run(): Promise<void> {
    while (this.#pending !== 'nothing') {
      const what = this.#pending;
      this.#pending = 'nothing';
      try {
        if (what === 'verify' && !(await this.#differs())) continue;
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
    this.#events.enforced({ ...result, milliseconds: this.#clock.now() - started });
    if (result.failed.size > 0) this.#scheduleRetry(() => {});
    else this.#retry = FIRST_RETRY;
  }

  /** Applies the state; a policy that fails is replaced by its last good version, then by nothing. */
  async #applyWithout(wanted: NodeState): Promise<Omit<Enforced, 'milliseconds'>> {
    const failed = new Map<string, Error>();
    let state = wanted;
    for (;;) {
      try {
        const transaction = await this.#reconciler.apply(this.#render(state));
        return { state, failed, transaction };
      } catch (error) {
        // All that was wanted is in force; what was left over is swept by the retry.
        if (error instanceof ApplyError && error.stage === 'sweep') throw error;
        const source = error instanceof ApplyError || error instanceof RenderError ? error.source : null;
        const key = source === null ? null : `${source.apiGroup}/${source.policy}`;
        if (key === null) return await this.#applyOneByOne(wanted, toError(error));
        if (!state.rules.some((rule) => policyKey(rule) === key)) throw error;
        state = substitute(state, key, failed.has(key) ? null : this.#good);
        failed.set(key, failed.get(key) ?? toError(error));
      }
    }
  }

  /**
   * The kernel didn't say which rule it refused: what hasn't changed is applied first, then each changed policy by itself.
   */
  async #applyOneByOne(wanted: NodeState, first: Error): Promise<Omit<Enforced, 'milliseconds'>> {
    const suspects = changedPolicies(wanted, this.#good);
    if (suspects.length === 0) throw first;
    const failed = new Map<string, Error>();
    let state = suspects.reduce((rest, key) => substitute(rest, key, this.#good), wanted);
    let transaction = await this.#reconciler.apply(this.#render(state));
    for (const key of suspects) {
      const next = substitute(state, key, wanted);
      try {
        transaction = await this.#reconciler.apply(this.#render(next));
        state = next;
      } catch (error) {
        failed.set(key, toError(error));
      }
    }
    return { state, failed, transaction };
  }

  #scheduleRetry(announce: (retryIn: number) => void): void {
    this.#cancelRetry();
    const retryIn = this.#retry;
    this.#retry = Math.min(2 * retryIn, LAST_RETRY);
    this.#cancelRetry = this.#clock.after(retryIn, () => this.#request('apply'));
    announce(retryIn);
  }
}

function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
