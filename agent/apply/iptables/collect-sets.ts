import { setTimeout as sleep } from 'node:timers/promises';
import { type DelOperation, type Ipset, IpsetError, type NameOperation } from 'ipset-ts';

export interface CollectedSets {
  /** Sets that rules of third parties name, with ipset's error. */
  readonly inUse: ReadonlyMap<string, IpsetError>;
  /** Another failure that ended the operation, and the sets that were not destroyed. */
  readonly failed: { readonly error: IpsetError; readonly left: readonly string[] } | null;
}

/**
 * Milliseconds between attempts to destroy a set that the kernel still calls in use: it frees
 * removed rules in work of its own, which may come after the command that removed them.
 */
const PAUSES = [50, 100, 200, 400, 800] as const;

interface CollectOptions {
  /** Sets that were in use before: for these the kernel's first answer counts. */
  readonly stuck?: ReadonlySet<string>;
  readonly pause?: (milliseconds: number) => Promise<unknown>;
}

/**
 * Deletes members and destroys sets, in order; sets that rules of third parties name stay. Throws
 * IpsetError if members can't be deleted.
 */
export async function collectSets(
  ipset: Ipset,
  operations: readonly (DelOperation | NameOperation)[],
  { stuck = new Set(), pause = sleep }: CollectOptions = {},
): Promise<CollectedSets> {
  const inUse = new Map<string, IpsetError>();
  let rest = operations;
  for (const wait of [...PAUSES, null]) {
    const collected = await collectOnce(ipset, rest);
    for (const one of rest) if (one.op === 'destroy') inUse.delete(one.name);
    for (const [name, error] of collected.inUse) inUse.set(name, error);
    if (collected.failed !== null) return { inUse, failed: collected.failed };
    rest = [...collected.inUse.keys()]
      .filter((name) => !stuck.has(name))
      .map((name) => ({ op: 'destroy', name }));
    if (rest.length === 0 || wait === null) break;
    await pause(wait);
  }
  return { inUse, failed: null };
}

async function collectOnce(
  ipset: Ipset,
  operations: readonly (DelOperation | NameOperation)[],
): Promise<CollectedSets> {
  const inUse = new Map<string, IpsetError>();
  let rest = operations;
  while (rest.length > 0) {
    try {
      await ipset.restore(rest, { exist: true });
      break;
    } catch (error) {
      const at = error instanceof IpsetError ? (error.operation ?? 0) : 0;
      const refused = rest[at];
      if (!(error instanceof IpsetError) || refused?.op !== 'destroy') throw error;
      if (error.code !== 'IN_USE') {
        const left = rest.flatMap((one) => (one.op === 'destroy' ? one.name : []));
        return { inUse, failed: { error, left } };
      }
      inUse.set(refused.name, error);
      rest = rest.slice(at + 1);
    }
  }
  return { inUse, failed: null };
}
