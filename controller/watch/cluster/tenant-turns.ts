import { type Clock, systemClock } from '../../../lib/process/clock.ts';

interface TenantTurnsOptions {
  /** Milliseconds from the first change that waits to its turn. */
  readonly quiet: number;
  /** Called when a turn is due: must call `take`. */
  readonly due: () => void;
  readonly clock?: Clock;
}

/** After a turn that took some time there is none for so many times as long. */
const REST = 4;
/** The longest rest (milliseconds). */
const LONGEST_REST = 2_000;

/**
 * Changes of objects that tenants write wait for their turn, so that those who edit all the time
 * take a fifth of the time of the thread that compiles, and administrators' changes do not wait
 * behind theirs.
 */
export class TenantTurns {
  readonly #options: TenantTurnsOptions;
  readonly #clock: Clock;
  #changes: (() => void)[] = [];
  #isDue = false;
  #restsUntil = Number.NEGATIVE_INFINITY;
  #cancel = (): void => {};

  constructor(options: TenantTurnsOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** Whether changes wait. */
  get isWaiting(): boolean {
    return this.#changes.length > 0;
  }

  /** @param apply called in the turn, in the order of `add` */
  add(apply: () => void): void {
    this.#changes.push(apply);
    if (!this.#isDue) this.#plan();
  }

  /** The turn: applies all that waits, and does what follows from it. */
  async run(then: () => Promise<void>): Promise<void> {
    this.#cancel();
    // Changes that come during the turn wait for the next, after the rest.
    this.#isDue = true;
    const started = this.#clock.now();
    const had = this.isWaiting;
    for (const apply of this.#changes.splice(0)) apply();
    await then();
    const now = this.#clock.now();
    if (had) this.#restsUntil = now + Math.min(LONGEST_REST, REST * (now - started));
    this.#isDue = false;
    if (this.isWaiting) this.#plan();
  }

  #plan(): void {
    this.#isDue = true;
    const { quiet, due } = this.#options;
    const wait = Math.max(quiet, this.#restsUntil - this.#clock.now());
    this.#cancel = this.#clock.after(wait, due);
  }

  close(): void {
    this.#cancel();
  }
}
