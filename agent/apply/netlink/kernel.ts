import {
  type ChainSnapshot,
  type Elements,
  type Generation,
  type LastCount,
  type Netlink,
  NftError,
  type NftErrorDetail,
  type TableSnapshot,
} from 'nftables-napi';
import { TABLE } from '../../render/ruleset.ts';
import type { Command } from '../plan/command.ts';
import { encode } from './encode.ts';

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

interface CountedChain {
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

/** The kernel itself, through netlink. */
export function netlinkKernel(
  netlink: Pick<Netlink, 'batch' | 'snapshot' | 'chains' | 'elements' | 'generation'>,
): Kernel {
  const { family, name: table } = TABLE;
  return {
    async transact(commands) {
      const started = performance.now();
      const { operations, commandOf } = encode(commands);
      const encoded = Math.round(1000 * (performance.now() - started));
      try {
        const { generation, lastCounts, microseconds } = await netlink.batch(operations);
        return {
          generation,
          lastCounts: ofChains(lastCounts, (operation) => commands[commandOf(operation)]),
          microseconds: { ...microseconds, build: encoded + microseconds.build },
        };
      } catch (error) {
        throw error instanceof NftError ? ofCommand(error, commandOf) : error;
      }
    },
    snapshot: () => netlink.snapshot(family, table),
    chains: (names) => netlink.chains(family, table, names),
    elements: (set) => netlink.elements({ family, table, set }),
    generation: () => netlink.generation(),
  };
}

function ofChains(
  counts: readonly LastCount[],
  commandOf: (operation: number) => Command | undefined,
): CountedChain[] {
  return [...Map.groupBy(counts, ({ operation }) => commandOf(operation))].flatMap(([command, rules]) =>
    command?.kind === 'flushChain' && command.counted !== undefined
      ? [{ name: command.name, handle: command.counted, rules }]
      : [],
  );
}

/** The error with the index of the command instead of that of the netlink operation. */
function ofCommand(error: NftError, commandOf: (operation: number) => number): NftError {
  const [first, ...more] = error.all;
  if (first === undefined) return error;
  const translate = (detail: NftErrorDetail): NftErrorDetail => ({
    ...detail,
    operation: detail.operation === null ? null : commandOf(detail.operation),
  });
  return new NftError([translate(first), ...more.map(translate)], { cause: error });
}

/**
 * The kernel's errors if nf_tables is neither built in nor available as a module: then there are no
 * rules.
 */
const NO_NF_TABLES: ReadonlySet<string> = new Set(['EINVAL', 'EOPNOTSUPP', 'EPROTONOSUPPORT']);

/** The result without nf_tables is `otherwise`. */
export async function whereNfTablesIs<T>(work: () => Promise<T>, otherwise: T): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof NftError && NO_NF_TABLES.has(error.code)) return otherwise;
    throw error;
  }
}
