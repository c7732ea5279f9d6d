import type { DropCount } from '../../apis/console-documents.ts';

/** Milliseconds of a step, and how many make a day. */
export const STEP = 900_000;
export const STEPS = 96;
/** Milliseconds after which what was counted weighs a third in the rate of now. */
const DECAY = 120_000;

/** Packets over a day: 1 kB, whatever is counted. Times are milliseconds since 1970. */
export class DropSeries {
  readonly #steps = new Float64Array(STEPS);
  /** The number of the newest step, since 1970. */
  #newest: number;
  #rate = 0;
  #ratedAt: number;

  constructor(now: number) {
    this.#newest = stepOf(now);
    this.#ratedAt = now;
  }

  add(packets: number, now: number): void {
    this.#forward(now);
    const at = this.#newest % STEPS;
    this.#steps[at] = (this.#steps[at] ?? 0) + packets;
    this.#rate = this.#rateAt(now) + (packets * 1000) / DECAY;
    this.#ratedAt = now;
  }

  read(now: number): DropCount {
    this.#forward(now);
    const first = this.#newest - STEPS + 1;
    const series = Array.from({ length: STEPS }, (_, i) => this.#steps[(first + i) % STEPS] ?? 0);
    const begin = series.findIndex((packets) => packets > 0);
    return {
      packetsPerSecond: Math.round(this.#rateAt(now) * 100) / 100,
      packets: series.reduce((sum, packets) => sum + packets, 0),
      series: begin < 0 ? [] : series.slice(begin),
    };
  }

  /** A clock that was set back adds to the newest step. */
  #forward(now: number): void {
    const newest = Math.max(this.#newest, stepOf(now));
    const passed = Math.min(newest - this.#newest, STEPS);
    for (let i = 0; i < passed; i++) this.#steps[(newest - i) % STEPS] = 0;
    this.#newest = newest;
  }

  #rateAt(now: number): number {
    return this.#rate * Math.exp(-Math.max(0, now - this.#ratedAt) / DECAY);
  }
}

export function stepOf(now: number): number {
  return Math.floor(now / STEP);
}
