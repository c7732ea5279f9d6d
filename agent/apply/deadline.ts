import type { Clock } from '../../lib/process/clock.ts';
import { Lane } from '../../lib/process/lane.ts';
import type { Log } from '../../lib/process/log.ts';
import type { Applied, Reconciler } from './reconciler-interface.ts';

/** The elements of a dataplane that keep the deadline of a trial (agent/render/deadline.ts). */
export interface DeadlineKernel {
  /**
   * The deadline is so many milliseconds from now, whether or not it has passed. Returns whether
   * all of its elements were still there. Throws if the sets are not there, or cannot be changed.
   */
  move(milliseconds: number): Promise<boolean>;
  /** Whether the sets are there, in any run: rules with a deadline are in force, or were. */
  isThere(): Promise<boolean>;
}

interface DeadlineKeeperOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly kernel: DeadlineKernel;
  /**
   * The deadline has passed, so the kernel accepted more than the rules say; it is in the future
   * again.
   */
  readonly passed: () => void;
}

/** The deadline is moved each time a quarter of it has passed: three attempts may fail. */
const PART = 4;
/** Milliseconds until the next attempt after one that failed. */
const AGAIN = 1_000;
/** Milliseconds: the kernel counts in ticks. */
const TICK = 20;

/**
 * Moves the deadline of the rules that are tried, as long as this process runs. Each time proves
 * that it has not passed since the time before: by the elements, which only the kernel's clock
 * deletes, and by the clock, as somebody may have made them again (a third party, or a replacement
 * of the whole table).
 */
export class DeadlineKeeper {
  readonly #options: DeadlineKeeperOptions;
  readonly #lane = new Lane();
  #milliseconds: number | null = null;
  /** The kernel counts from then on, or later (monotonic milliseconds). */
  #from = Number.NEGATIVE_INFINITY;
  #cancel = (): void => {};
  #isClosed = false;

  constructor(options: DeadlineKeeperOptions) {
    this.#options = options;
  }

  /** Milliseconds of the deadline in the kernel; null: it has none. */
  get milliseconds(): number | null {
    return this.#milliseconds;
  }

  /** Before the first change: whether an earlier run ended while its rules had a deadline. */
  async isLeft(): Promise<boolean> {
    // Where the kernel cannot be asked, it may be so.
    return await this.#options.kernel.isThere().catch(() => true);
  }

  /** Monotonic milliseconds: to be asked before a change is made that has a deadline. */
  now(): number {
    return this.#options.clock.now();
  }

  /**
   * Rules with a deadline are in force, by a change that began at `since`. It is moved at once, as
   * the change may have taken long.
   */
  async begin(milliseconds: number, since: number): Promise<void> {
    if (this.#isClosed || this.#milliseconds === milliseconds) return;
    await this.#lane.run(async () => {
      this.#milliseconds = milliseconds;
      this.#from = since;
      await this.#move(milliseconds);
    });
  }

  /** As `begin`, where the change failed: perhaps only after the rules were in force. */
  async beginIfThere(milliseconds: number, since: number): Promise<void> {
    if (this.#isClosed || this.#milliseconds !== null) return;
    const { kernel } = this.#options;
    await this.#lane.run(async () => {
      const isThere = await kernel.move(milliseconds).then(
        () => true,
        () => false,
      );
      if (!isThere) return;
      this.#milliseconds = milliseconds;
      this.#from = since;
      this.#again(milliseconds / PART);
    });
  }

  /** The rules with a deadline are about to be replaced by others. */
  async end(): Promise<void> {
    this.#cancel();
    this.#milliseconds = null;
    await this.#lane.run(async () => {});
  }

  /** They were not replaced after `end`: whether the deadline has passed is asked at once. */
  async resume(milliseconds: number): Promise<void> {
    if (this.#isClosed) return;
    this.#milliseconds = milliseconds;
    await this.check();
  }

  /**
   * Whether nothing was accepted past the deadline until now, since the rules that are tried are in
   * force. False also where the kernel cannot be asked. Where it has passed, `passed` was called.
   */
  check(): Promise<boolean> {
    return this.#lane.run(async () => {
      const milliseconds = this.#milliseconds;
      if (milliseconds === null) return true;
      const from = this.#from;
      const isMoved = await this.#move(milliseconds);
      if (isMoved === 'there' && this.#options.clock.now() - from < milliseconds - TICK) return true;
      // Also where the rules are about to be replaced by others: these are not tried any more.
      if (isMoved === 'failed' || this.#milliseconds === null) return false;
      this.#passed();
      return false;
    });
  }

  /** The kernel goes on to count: from now on nobody moves it. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.end();
  }

  async #move(milliseconds: number): Promise<'there' | 'gone' | 'failed'> {
    const { clock, kernel, log } = this.#options;
    const began = clock.now();
    this.#cancel();
    try {
      const isThere = await kernel.move(milliseconds);
      this.#from = began;
      this.#again(milliseconds / PART);
      return isThere ? 'there' : 'gone';
    } catch (error) {
      if (this.#milliseconds === null) return 'failed';
      log.warn('cannot renew the deadline of the rules that are tried; trying again', {
        stage: 'guard',
        error: (error as Error).message,
      });
      this.#again(AGAIN);
      return 'failed';
    }
  }

  #again(after: number): void {
    if (this.#milliseconds === null) return;
    this.#cancel = this.#options.clock.after(after, () => void this.check());
  }

  #passed(): void {
    const { log, passed } = this.#options;
    const message =
      'the deadline of the rules that are tried had passed: the agent did not run for a while, and the failsafe list was accepted whatever the rules say; these are not confirmed';
    log.warn(message, { stage: 'guard', seconds: (this.#milliseconds ?? 0) / 1000 });
    passed();
  }
}

/** The same reconciler; the deadline of what it applies is kept. */
export function withDeadline<Desired>(
  reconciler: Reconciler<Desired>,
  keeper: Pick<DeadlineKeeper, 'now' | 'begin' | 'beginIfThere' | 'end' | 'resume' | 'milliseconds'>,
  deadlineOf: (desired: Desired) => number | null,
): Reconciler<Desired> {
  async function without(desired: Desired): Promise<Applied> {
    const before = keeper.milliseconds;
    if (before === null) return await reconciler.apply(desired);
    await keeper.end();
    try {
      return await reconciler.apply(desired);
    } catch (error) {
      // The rules before stay in force.
      await keeper.resume(before);
      throw error;
    }
  }
  return {
    async apply(desired) {
      const milliseconds = deadlineOf(desired);
      if (milliseconds === null) return await without(desired);
      const since = keeper.now();
      try {
        const applied = await reconciler.apply(desired);
        await keeper.begin(milliseconds, since);
        return applied;
      } catch (error) {
        await keeper.beginIfThere(milliseconds, since);
        throw error;
      }
    },
    verify: () => reconciler.verify(),
    holdsRules: () => reconciler.holdsRules(),
  };
}
