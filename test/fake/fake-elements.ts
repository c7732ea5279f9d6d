import type { BatchOperation, BatchResult, SetName, TimedElement } from 'nftables-napi';
import type { Clock } from '../../lib/process/clock.ts';
import { toNftError } from './table.ts';

/**
 * Sets whose elements have a timeout, as the kernel keeps them: a batch is done whole or not at
 * all, and what has ended can't be deleted.
 */
export class FakeElements {
  readonly #clock: Clock;
  /** Set and key, to the moment at which it ends. */
  #ends = new Map<string, number>();
  readonly sets = new Set<string>();
  /** Called before a batch is done: the way to the kernel may take long. */
  before: () => void = () => {};
  generation = 7;

  constructor(clock: Clock) {
    this.#clock = clock;
    for (const set of ['inet egress-live-v4', 'inet egress-live-v6', 'arp live']) this.sets.add(set);
  }

  /** What is alive: set and key in hexadecimal digits, with what is left. */
  alive(): Record<string, number> {
    const now = this.#clock.now();
    const left = [...this.#ends].map(([name, end]) => [name, end - now] as const);
    return Object.fromEntries(left.filter(([, milliseconds]) => milliseconds > 0).sort());
  }

  async batch(operations: readonly BatchOperation[]): Promise<BatchResult> {
    this.before();
    const ends = new Map(this.#ends);
    for (const [index, operation] of operations.entries()) {
      if (!('keys' in operation)) throw new Error(`unexpected ${operation.op}`);
      const { op, family, set, keys, timeouts } = operation;
      const refuse = () => toNftError('ENOENT', 'No such file or directory', { operation: index });
      if (!this.sets.has(`${family} ${set}`)) throw refuse();
      const name = `${family} ${set} ${Buffer.from(keys).toString('hex')}`;
      if (op === 'delete') {
        if ((ends.get(name) ?? 0) <= this.#clock.now()) throw refuse();
        ends.delete(name);
      } else ends.set(name, this.#clock.now() + (timeouts?.[0] ?? Number.POSITIVE_INFINITY));
    }
    this.#ends = ends;
    const before = this.generation++;
    return {
      generation: { before, after: this.generation },
      lastCounts: [],
      microseconds: { build: 0, kernel: 0 },
    };
  }

  async read({ family, set }: SetName): Promise<readonly TimedElement[] | null> {
    if (!this.sets.has(`${family} ${set}`)) return null;
    return Object.entries(this.alive()).flatMap(([name, milliseconds]) => {
      const [of, other, hex = ''] = name.split(' ');
      return of === family && other === set ? [{ key: Buffer.from(hex, 'hex'), milliseconds }] : [];
    });
  }
}
