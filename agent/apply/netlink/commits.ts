import type { Generation } from 'nftables-napi';
import type { Committed } from './kernel.ts';

/** Accumulates the kernel transactions of one apply. */
export class Commits {
  #span: Readonly<Generation> | null = null;
  #isUnbroken = true;
  #kernelMicroseconds = 0;

  add({ generation, microseconds }: Committed): void {
    const { before, after } = generation;
    const isNext = this.#span === null || before === this.#span.after;
    this.#isUnbroken &&= isNext && after === before + 1;
    this.#span = { before: this.#span?.before ?? before, after };
    this.#kernelMicroseconds += microseconds.kernel;
  }

  /**
   * The generations before the first and after the last transaction; null if nothing was committed.
   */
  get span(): Readonly<Generation> | null {
    return this.#span;
  }

  /** Whether no third party committed in between. */
  get isUnbroken(): boolean {
    return this.#isUnbroken;
  }

  /** The time that all transactions took in the kernel, in microseconds. */
  get kernelMicroseconds(): number {
    return this.#kernelMicroseconds;
  }
}
