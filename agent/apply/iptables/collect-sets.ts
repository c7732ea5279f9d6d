import { type DelOperation, type Ipset, IpsetError, type NameOperation } from 'ipset-ts';

export interface CollectedSets {
  /** Sets that rules of third parties name, with ipset's error. */
  readonly inUse: ReadonlyMap<string, IpsetError>;
  /** Another failure that ended the operation, and the sets that were not destroyed. */
  readonly failed: { readonly error: IpsetError; readonly left: readonly string[] } | null;
}

/**
 * Deletes members and destroys sets, in order; sets that rules of third parties name stay. Throws
 * IpsetError if members can't be deleted.
 */
export async function collectSets(
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
