import type { Clock } from '../../lib/process/clock.ts';
import { outward, type Probe, probeRound } from './probes.ts';

interface RoundBeforeParts {
  readonly clock: Clock;
  /** All probes of this agent; inward ones can't be made before a change without delaying it. */
  readonly probes: () => readonly Probe[];
}

/** A round, and the states before which it was made: from one number to another. */
interface Round {
  readonly at: number;
  readonly first: number;
  readonly last: number;
  readonly results: Promise<Results>;
}

/** By probe: null if it passed, else the reason. */
type Results = ReadonlyMap<string, string | null>;

/**
 * Milliseconds that the round before a change has, and in which its connections must be made: less
 * than until TCP sends a packet again, which the new rules would judge.
 */
const BEFORE = { milliseconds: 2_000, connectWithin: 900 };

/**
 * The probes that pass under the rules in force, just before others are: these count in a trial.
 * States are judged later than they are submitted, and others may be submitted meanwhile: each has
 * its own rounds.
 */
export class RoundBefore {
  readonly #parts: RoundBeforeParts;
  #rounds: readonly Round[] = [];
  #newest = 0;

  constructor(parts: RoundBeforeParts) {
    this.#parts = parts;
  }

  /**
   * Makes a round before a state, whose packets leave in this turn of the event loop; once for a
   * burst of states, unless the confirmed one was among them: then the rules in force are others.
   * Returns the state's number.
   */
  make(): number {
    const last = this.skip();
    const at = this.#parts.clock.now();
    const latest = this.#rounds.at(-1);
    if (latest?.last === last - 1 && at < latest.at + BEFORE.connectWithin)
      this.#rounds = [...this.#rounds.slice(0, -1), { ...latest, last }];
    else this.#rounds = [...this.#rounds, { at, first: last, last, results: this.#resultsNow() }];
    return last;
  }

  /** A state that is never tried, such as the confirmed one after a rollback, needs no round. */
  skip(): number {
    return ++this.#newest;
  }

  /**
   * The probes that were made before a state, or before others that are not judged yet. One that
   * passed in any of the rounds has passed.
   * @param number of the state; null: the newest
   */
  async results(number: number | null): Promise<Results> {
    const newest = number ?? this.#newest;
    const own = this.#rounds.filter(({ first }) => first <= newest);
    const all = (await Promise.all(own.map(({ results }) => results))).flatMap((one) => [...one]);
    return new Map([...all, ...all.filter(([, error]) => error === null)]);
  }

  /** The state is judged: what passed before it says nothing about later ones. */
  forget(number: number | null): void {
    const newest = number ?? this.#newest;
    this.#rounds = this.#rounds.filter(({ last }) => last > newest);
  }

  #resultsNow(): Promise<Results> {
    return probeRound(outward(this.#parts.probes()), BEFORE);
  }
}
