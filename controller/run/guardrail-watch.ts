import type { ClusterObjects } from '../../apis/objects.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import type { ImpactProcess } from '../impact/impact-process.ts';
import { messageOf } from '../kubeapi/connection.ts';
import type { GuardrailKeeper } from '../status/guardrail-keeper.ts';

export interface GuardrailWatchOptions {
  readonly impact: Pick<ImpactProcess, 'violations'>;
  /** The objects as they are compiled now; null: not known yet. */
  readonly objects: () => ClusterObjects | null;
  readonly keeper: Pick<GuardrailKeeper, 'set'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Milliseconds between an evaluation and the next one; after a failure. */
const BETWEEN = 300;
const AFTER_FAILURE = 5_000;

/**
 * Evaluates the Guardrails after changes of the cluster, one evaluation at a time: what changes
 * meanwhile counts in the next one. Without Guardrails, too: the process that checks changes is
 * then up to date.
 */
export class GuardrailWatch {
  readonly #options: GuardrailWatchOptions;
  #evaluated: ClusterObjects | null = null;
  #isRunning = false;
  #isClosed = false;
  #cancel: (() => void) | null = null;

  constructor(options: GuardrailWatchOptions) {
    this.#options = options;
  }

  /** Called after each change of the objects. */
  look(): void {
    if (this.#isRunning || this.#isClosed || this.#cancel !== null) return;
    if (this.#options.objects() === this.#evaluated) return;
    this.#isRunning = true;
    void this.#evaluate();
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel?.();
  }

  async #evaluate(): Promise<void> {
    const { impact, objects, keeper, clock, log } = this.#options;
    const now = objects();
    let wait = BETWEEN;
    try {
      const violations = await impact.violations();
      // What changed before the question was sent is in the next evaluation, too.
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
      this.look();
    });
  }
}
