import type { ChainSnapshot, Elements, Generation, TableSnapshot } from 'nftables-napi';
import type { Command } from '../plan/command.ts';

/** The operations of nf_tables that apply needs, on our one table. Tests use a fake instead. */
export interface Kernel {
  /**
   * Runs one kernel transaction: all of it or nothing. Sends nothing if there are no commands.
   * Throws NftError if the kernel refuses it; `operation` is the index of the command, null if the
   * kernel doesn't report one.
   */
  transact(commands: readonly Command[]): Promise<Committed>;
  /** The whole table; null if it doesn't exist. */
  snapshot(): Promise<TableSnapshot | null>;
  /** The named chains; those that don't exist are left out. */
  chains(names: readonly string[]): Promise<ChainReading>;
  /** The elements of one set or map; null if it doesn't exist. */
  elements(set: string): Promise<Elements | null>;
  /** The current nf_tables generation, see Generation. */
  generation(): Promise<number>;
}

export interface Committed {
  readonly generation: Readonly<Generation>;
  /**
   * For chains that were flushed with `counted`: the last counters of the replaced rules, under the
   * chain's name before the transaction.
   */
  readonly lastCounts: readonly CountedChain[];
  /** Wall-clock times: encoding the messages; sending them, with the kernel's work. */
  readonly microseconds: { readonly build: number; readonly kernel: number };
}

export interface CountedChain {
  readonly name: string;
  readonly handle: number;
  readonly rules: readonly { readonly packets: bigint; readonly bytes: bigint }[];
}

/** Chains as of one generation. */
export interface ChainReading {
  readonly generation: number;
  readonly chains: readonly ChainSnapshot[];
}

/**
 * Up to this many chains are read one by one; reading the whole table costs no more than reading
 * more of them.
 */
export const MAX_CHAINS_READ = 500;

/**
 * Removes our table and everything in it; returns whether it existed. Throws NftError if the kernel
 * refuses.
 */
export async function removeTable(kernel: Kernel): Promise<boolean> {
  if ((await kernel.snapshot()) === null) return false;
  await kernel.transact([{ kind: 'deleteTable' }]);
  return true;
}

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
