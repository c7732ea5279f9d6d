import { seededRandom } from '../../../perf/generate/random.ts';

interface Event {
  readonly at: number;
  readonly number: number;
  /** Null: cancelled. */
  run: (() => void) | null;
}

/** Events in the order of their times; the time is of no clock that a process could read. */
export class World {
  now = 0;
  readonly random: () => number;
  /** A binary heap by time, then by number. */
  readonly #events: Event[] = [];
  #count = 0;

  constructor(seed: number) {
    this.random = seededRandom(String(seed)).next;
  }

  /** Returns a function that cancels it. */
  at(time: number, run: () => void): () => void {
    const event: Event = { at: Math.max(time, this.now), number: this.#count++, run };
    this.#push(event);
    return () => {
      event.run = null;
    };
  }

  after(milliseconds: number, run: () => void): () => void {
    return this.at(this.now + milliseconds, run);
  }

  pass(milliseconds: number): void {
    const end = this.now + milliseconds;
    for (let next = this.#events[0]; next !== undefined && next.at <= end; next = this.#events[0]) {
      this.#pop();
      this.now = next.at;
      next.run?.();
    }
    this.now = end;
  }

  between(least: number, most: number): number {
    return least + this.random() * (most - least);
  }

  chance(share: number): boolean {
    return this.random() < share;
  }

  pick<T>(items: readonly T[]): T {
    const item = items[Math.floor(this.random() * items.length)];
    if (item === undefined) throw new Error('nothing to pick');
    return item;
  }

  #before(a: number, b: number): boolean {
    const [one, other] = [this.#events[a], this.#events[b]];
    if (one === undefined || other === undefined) return other === undefined;
    return one.at < other.at || (one.at === other.at && one.number < other.number);
  }

  #swap(a: number, b: number): void {
    const [one, other] = [this.#events[a], this.#events[b]];
    if (one === undefined || other === undefined) return;
    this.#events[a] = other;
    this.#events[b] = one;
  }

  #push(event: Event): void {
    this.#events.push(event);
    for (let i = this.#events.length - 1; i > 0; ) {
      const parent = (i - 1) >> 1;
      if (!this.#before(i, parent)) return;
      this.#swap(i, parent);
      i = parent;
    }
  }

  #pop(): void {
    this.#swap(0, this.#events.length - 1);
    this.#events.pop();
    for (let i = 0; ; ) {
      const [left, right] = [2 * i + 1, 2 * i + 2];
      const least = right < this.#events.length && this.#before(right, left) ? right : left;
      if (least >= this.#events.length || !this.#before(least, i)) return;
      this.#swap(i, least);
      i = least;
    }
  }
}

/** A process: its clock is wrong in its rate, and it may be stopped for a while. */
export class Process {
  readonly world: World;
  readonly #rate: number;
  readonly #offset: number;
  #pausedUntil = 0;
  /** What happened during the pause. */
  #waiting: (() => void)[] = [];
  isOver = false;

  constructor(world: World, rateError: number) {
    this.world = world;
    this.#rate = 1 + rateError * (2 * world.random() - 1);
    this.#offset = world.random() * 1e9;
  }

  /** Monotonic milliseconds. */
  readonly now = (): number => this.#offset + this.world.now * this.#rate;

  readonly after = (milliseconds: number, run: () => void): (() => void) =>
    this.world.after(milliseconds / this.#rate, () => this.run(run));

  /** The duration of the process's clock, in that of the world. */
  toWorld(milliseconds: number): number {
    return milliseconds / this.#rate;
  }

  pause(milliseconds: number): void {
    this.#pausedUntil = this.world.now + milliseconds;
  }

  /** Now, or when it goes on; in the order of the calls. */
  run(what: () => void): void {
    if (this.isOver) return;
    if (this.#waiting.length === 0 && this.#pausedUntil <= this.world.now) {
      what();
      return;
    }
    this.#waiting.push(what);
    if (this.#waiting.length === 1) this.#goOn();
  }

  #goOn(): void {
    this.world.at(this.#pausedUntil, () => {
      if (this.#pausedUntil > this.world.now) {
        this.#goOn();
        return;
      }
      const waiting = this.#waiting;
      this.#waiting = [];
      for (const what of waiting) if (!this.isOver) what();
    });
  }
}
