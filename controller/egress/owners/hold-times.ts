import type { HeldAddress } from '../../../apis/egress/objects.ts';
import type { WallClock } from '../../../lib/process/clock.ts';
import { utcText } from '../../../lib/process/clock.ts';
import { CUT, HOLD, type HoldPhase, type HoldTime } from '../quarantine.ts';

interface Known {
  readonly heldUntil: string;
  /** Monotonic milliseconds. */
  readonly end: number;
}

/**
 * How long released addresses are held back. The monotonic clock counts; the time in a status that
 * another leader wrote is compared once with the wall clock, and never makes it longer than HOLD.
 */
export class HoldTimes {
  readonly #clock: WallClock;
  #before: ReadonlyMap<string, Known> = new Map();
  #now = new Map<string, Known>();

  constructor(clock: WallClock) {
    this.#clock = clock;
  }

  /** Begins a round: what no call of the round before was about is in use again, and forgotten. */
  begin(): void {
    this.#before = this.#now;
    this.#now = new Map();
  }

  /** Forgets all: another leader may have decided since. */
  clear(): void {
    this.#before = new Map();
    this.#now = new Map();
  }

  /** @param gateway its uid and name */
  of(gateway: string, { address, policy, heldUntil }: HeldAddress, phase: HoldPhase): HoldTime {
    const key = `${gateway}|${address}|${policy}|${phase}`;
    const known = this.#before.get(key) ?? this.#first(heldUntil, phase);
    this.#now.set(key, known);
    return { heldUntil: known.heldUntil, left: known.end - this.#clock.now() };
  }

  /** Milliseconds until the next phase begins or ends; null: none. */
  get next(): number | null {
    const ends = [...this.#now.values()].map(({ end }) => end);
    return ends.length === 0 ? null : Math.max(0, Math.min(...ends) - this.#clock.now());
  }

  #first(heldUntil: string | undefined, phase: HoldPhase): Known {
    const now = this.#clock.now();
    const date = this.#clock.date().getTime();
    if (phase === 'cut') return { heldUntil: heldUntil ?? toText(date), end: now + CUT };
    const told = heldUntil === undefined ? Number.NaN : Date.parse(heldUntil) - date;
    const left = Number.isNaN(told) ? HOLD : Math.min(told, HOLD);
    return { heldUntil: heldUntil ?? toText(date + HOLD), end: now + left };
  }
}

function toText(date: number): string {
  return utcText(date);
}
