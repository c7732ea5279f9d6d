import { type LastCount, type Netlink, NftError, type NftErrorDetail } from 'nftables-napi';
import { TABLE } from '../../render/ruleset.ts';
import type { Command } from '../plan/command.ts';
import { encode } from './encode.ts';
import type { CountedChain, Kernel } from './kernel.ts';

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
  return new NftError([translate(first), ...more.map(translate)], error.stderr, { cause: error });
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
