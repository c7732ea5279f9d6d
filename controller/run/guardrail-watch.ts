import type { Config } from '../../apis/config.ts';
import type { ClusterObjects, Guardrail } from '../../apis/objects.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import type { Impact, Violations } from '../impact/impact.ts';
import type { Asker, ImpactProcess } from '../impact/impact-process.ts';
import { type ObjectChange, withFollowing } from '../impact/object-mirror.ts';
import { messageOf } from '../kubeapi/connection.ts';
import type { GuardrailKeeper } from '../status/guardrail-keeper.ts';
import type { Snapshot } from '../watch/source.ts';
import type { Compiling } from './compiling.ts';

interface GuardrailWatchOptions {
  readonly impact: Pick<ImpactProcess, 'violations' | 'change' | 'rest'>;
  /** The objects as they are compiled now, and those that wait; null: not known yet. */
  readonly compiling: Pick<Compiling, 'objects' | 'snapshot'>;
  readonly config: Pick<Config, 'interfaceGroups'>;
  readonly keeper: Pick<GuardrailKeeper, 'set' | 'wait'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Milliseconds between an evaluation and the next one; after a failure. */
const BETWEEN = 300;
const AFTER_FAILURE = 5_000;

/** Milliseconds after a change was checked in which the process stays up to date for the next. */
export const KEEP_READY = 600_000;

const NO_VIOLATIONS: Violations = new Map();

/**
 * Evaluates the Guardrails after changes of the cluster, one evaluation at a time: what changes
 * meanwhile counts in the next one. The process that does it compiles the whole cluster, which
 * takes memory and time: without Guardrails it only runs, and is only kept up to date, for some
 * minutes after the webhook has asked for the impact of a change.
 */
export class GuardrailWatch {
  readonly #options: GuardrailWatchOptions;
  #evaluated: ClusterObjects | null = null;
  #said: Snapshot | null = null;
  #isRunning = false;
  #isClosed = false;
  #cancel: (() => void) | null = null;
  /** While the process is kept up to date without Guardrails: cancels the end of that. */
  #keepsReady: (() => void) | null = null;

  constructor(options: GuardrailWatchOptions) {
    this.#options = options;
  }

  /** Called after each change of the objects. */
  evaluate(): void {
    this.#sayWaiting();
    if (this.#isRunning || this.#isClosed || this.#cancel !== null) return;
    const { objects } = this.#options.compiling;
    if (objects === this.#evaluated) return;
    if (objects?.guardrails.length === 0 && this.#keepsReady === null) {
      this.#options.keeper.set([], NO_VIOLATIONS);
      if (this.#evaluated !== null) this.#rest();
      return;
    }
    this.#isRunning = true;
    void this.#evaluate();
  }

  /**
   * Evaluates a change. The first one in a large cluster may come too late: it waits for the
   * process to compile the cluster, which goes on when the time of the change is over.
   */
  async change(change: ObjectChange, asker: Asker): Promise<Impact> {
    const { impact, clock } = this.#options;
    this.#keepsReady?.();
    this.#keepsReady = this.#isClosed ? null : clock.after(KEEP_READY, () => this.#rest());
    this.evaluate();
    const { compiling, config } = this.#options;
    const { objects, snapshot } = compiling;
    const groups = Object.keys(config.interfaceGroups);
    const { waiting = [], definitions: { gone } = {} } = snapshot ?? {};
    const following = gone === undefined ? { waiting } : { waiting, gone };
    const whole = objects === null ? change : withFollowing(objects, change, following, groups);
    return await impact.change(whole, asker);
  }

  #sayWaiting(): void {
    const { snapshot } = this.#options.compiling;
    if (snapshot === null || snapshot === this.#said) return;
    this.#said = snapshot;
    const guardrails = (snapshot.waiting ?? []).filter((one): one is Guardrail => one.kind === 'Guardrail');
    this.#options.keeper.wait(guardrails, snapshot.problems);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel?.();
    this.#keepsReady?.();
  }

  #rest(): void {
    const { impact, compiling } = this.#options;
    this.#keepsReady = null;
    if (compiling.objects?.guardrails.length !== 0) return;
    this.#evaluated = null;
    impact.rest();
  }

  async #evaluate(): Promise<void> {
    const { impact, compiling, keeper, clock, log } = this.#options;
    const now = compiling.objects;
    let wait = BETWEEN;
    try {
      const violations = await impact.violations();
      // Changes of before the question are in the next evaluation, too.
      this.#evaluated = now;
      if (!this.#isClosed) keeper.set(now?.guardrails ?? [], violations);
    } catch (error) {
      wait = AFTER_FAILURE;
      if (!this.#isClosed)
        log.warn('cannot evaluate the Guardrails; trying again', {
          stage: 'status',
          error: messageOf(error),
        });
    }
    this.#isRunning = false;
    if (this.#isClosed) return;
    this.#cancel = clock.after(wait, () => {
      this.#cancel = null;
      this.evaluate();
    });
  }
}
