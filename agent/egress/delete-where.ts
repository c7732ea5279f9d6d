import type { Conntrack, ConntrackEntry, NftError } from 'nftables-napi';

/**
 * Deletes these connections from the kernel's table, in one pass.
 *
 * @returns why one of them is still there; null: none is
 */
export async function deleteWhere(
  conntrack: Pick<Conntrack, 'entries' | 'delete'>,
  isMeant: (entry: ConntrackEntry) => boolean,
): Promise<NftError | null> {
  let refusal: NftError | null = null;
  // ENOENT: it has ended meanwhile.
  for await (const entries of conntrack.entries())
    for (const error of await conntrack.delete(entries.filter(isMeant)))
      if (error !== null && error.code !== 'ENOENT') refusal ??= error;
  return refusal;
}
