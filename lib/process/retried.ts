import { BackOff, type BackOffOptions } from './back-off.ts';
import type { Clock } from './clock.ts';
import { Lane } from './lane.ts';

export interface RetriedOptions<Work> {
  readonly clock: Clock;
  readonly waits: BackOffOptions;
  readonly run: (work: Work) => Promise<void>;
  /** Makes one of both; `later` was asked for after `earlier`. */
  readonly merge: (earlier: Work, later: Work) => Work;
  /** Called after each failure; `retryIn` is in milliseconds. */
  readonly failed: (error: Error, retryIn: number) => void;
}

/**
 * Work that is done until it succeeds, one run at a time: what is asked for meanwhile is done in
 * the next run, together, and what failed is done again with back-off. So `run` may do the same
 * work twice.
 */
export class Retried<Work> {
  readonly #options: RetriedOptions<Work>;
  readonly #waits: BackOff;
  readonly #lane = new Lane();
  #pending: { readonly work: Work } | null = null;
  #cancel = (): void => {};
  #isClosed = false;

  constructor(options: RetriedOptions<Work>) {
    this.#options = options;
    this.#waits = new BackOff(options.waits);
  }

  /** Resolves after a run that began after the call, also if it failed. Never rejects. */
  add(work: Work): Promise<void> {
    this.#keep((pending) => (pending === null ? work : this.#options.merge(pending.work, work)));
    return this.#lane.run(() => this.#try());
  }

  /** Nothing begins any more: what waits is left out. Resolves after the run in progress. */
  close(): Promise<void> {
    this.#isClosed = true;
    this.#pending = null;
    this.#cancel();
    return this.#lane.run(async () => {});
  }

  #keep(next: (pending: { readonly work: Work } | null) => Work): void {
    if (!this.#isClosed) this.#pending = { work: next(this.#pending) };
  }

  async #try(): Promise<void> {
    if (this.#pending === null) return;
    const { work } = this.#pending;
    const { clock, run, merge, failed } = this.#options;
    this.#pending = null;
    this.#cancel();
    try {
      await run(work);
      this.#waits.reset();
    } catch (error) {
      this.#keep((later) => (later === null ? work : merge(work, later.work)));
      if (this.#isClosed) return;
      const wait = this.#waits.next();
      this.#cancel = clock.after(wait, () => void this.#lane.run(() => this.#try()));
      failed(error as Error, wait);
    }
  }
}
