import type { Generation } from 'nftables-napi';
import type { Committed } from './kernel.ts';

/** The kernel transactions of one apply, seen together. */
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

  /** The generations before the first and after the last; null: nothing was committed. */
  get span(): Readonly<Generation> | null {
    return this.#span;
  }

  /** Whether nobody else committed in between. */
  get isUnbroken(): boolean {
    return this.#isUnbroken;
  }

  /** What they took in the kernel, in all. */
  get kernelMicroseconds(): number {
    return this.#kernelMicroseconds;
  }
}
