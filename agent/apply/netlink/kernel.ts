import type { ChainSnapshot, Elements, Generation, TableSnapshot } from 'nftables-napi';
import type { Command } from '../plan/command.ts';

/** What apply asks of nf_tables, for the one table of ours; tests put a fake in its place. */
export interface Kernel {
  /**
   * One kernel transaction: all of it or nothing. No commands: nothing is sent. NftError where the
   * kernel refuses it; `operation` is the index of the command, null where the kernel doesn't say.
   */
  transact(commands: readonly Command[]): Promise<Committed>;
  /** The whole table, null where there is none. */
  snapshot(): Promise<TableSnapshot | null>;
  /** Only these chains; what isn't there is left out. */
  chains(names: readonly string[]): Promise<ChainReading>;
  /** Of one set or map, null where there is none. */
  elements(set: string): Promise<Elements | null>;
  /** The nf_tables generation now, see Generation. */
  generation(): Promise<number>;
}

export interface Committed {
  readonly generation: Readonly<Generation>;
  /**
   * Of chains that were flushed with `counted`: under the name that they had, what their rules had
   * counted when others took their place.
   */
  readonly lastCounts: readonly CountedChain[];
  /** Wall-clock: making the messages, and sending them with the kernel's work. */
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
 * So many chains are read one by one; reading the whole table costs no more than reading more of
 * them.
 */
export const MAX_CHAINS_READ = 500;
