import type { Clock } from '../../lib/process/clock.ts';
import { outward, type Probe, probeRound } from './probes.ts';

interface RoundBeforeParts {
  readonly clock: Clock;
  /** All probes of this agent; inward ones can't be made before a change without delaying it. */
  readonly probes: () => readonly Probe[];
}

/**
 * Milliseconds that the round before a change has, and in which its connections must be made: less
 * than until TCP sends a packet again, which the new rules would judge.
 */
const BEFORE = { milliseconds: 2_000, connectWithin: 900 };

/** The probes that pass under the rules in force, just before others are: these count in a trial. */
export class RoundBefore {
  readonly #parts: RoundBeforeParts;
  /** The probes that passed before states that are not judged yet; null: no round was made. */
  #passed: Promise<readonly string[]> | null = null;
  #madeAt = 0;

  constructor(parts: RoundBeforeParts) {
    this.#parts = parts;
  }

  /**
   * Makes a round, whose packets leave in this turn of the event loop; once for a burst of states.
   */
  make(): void {
    const now = this.#parts.clock.now();
    const earlier = this.#passed;
    if (earlier !== null && now < this.#madeAt + BEFORE.connectWithin) return;
    this.#madeAt = now;
    const fresh = this.#passingNow();
    this.#passed = earlier === null ? fresh : Promise.all([earlier, fresh]).then((all) => all.flat());
  }

  /** The names of the probes that passed before any of the states since `forget`. */
  async passed(): Promise<readonly string[]> {
    return (await this.#passed) ?? [];
  }

  /** The state in force is judged: what passed before it says nothing about later ones. */
  forget(): void {
    this.#passed = null;
  }

  async #passingNow(): Promise<readonly string[]> {
    const results = await probeRound(outward(this.#parts.probes()), BEFORE);
    return [...results].filter(([, error]) => error === null).map(([name]) => name);
  }
}
