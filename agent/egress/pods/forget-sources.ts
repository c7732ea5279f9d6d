import type { Conntrack, ConntrackEntry, NftError } from 'nftables-napi';
import { parseAddress } from '../../../lib/net/address.ts';
import { packAddress } from '../../../lib/net/member-set.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import type { Log } from '../../../lib/process/log.ts';
import type { Retried } from '../../../lib/process/retried.ts';
import { deleteWhere } from '../delete-where.ts';
import { GATEWAY } from '../render/marks.ts';
import { retriedDeletion } from '../retried-deletion.ts';

/** all: on the pod's node. taken: those that leave by this node as a gateway. */
export type ForgottenConnections = 'all' | 'taken';

/**
 * Deletes the connections that these addresses began: another pod has them now, or will.
 *
 * @returns why one of them is still there; null: none is
 */
export async function forgetSources(
  conntrack: Pick<Conntrack, 'entries' | 'delete'>,
  addresses: ReadonlySet<string>,
  which: ForgottenConnections,
): Promise<NftError | null> {
  const packed = new Set<string>();
  for (const text of addresses) {
    const address = parseAddress(text);
    if (address !== null) packed.add(toKey(packAddress(address)));
  }
  const isMeant = ({ original, mark }: ConntrackEntry): boolean =>
    (which === 'all' || (mark & GATEWAY) !== 0) && packed.has(toKey(original.source));
  return await deleteWhere(conntrack, isMeant);
}

function toKey(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

interface ForgettingSourcesOptions {
  readonly clock: Clock;
  readonly log: Pick<Log, 'error'>;
  readonly which: ForgottenConnections;
}

/**
 * Ends connections of addresses in one pass at a time over the kernel's table, however many pods
 * come and go, and tries again what it refused. Then the next pod of an address may have
 * connections: they are ended as well, and begin anew.
 */
export function forgettingSources({
  which,
  ...parts
}: ForgettingSourcesOptions): Retried<ReadonlySet<string>> {
  return retriedDeletion({
    ...parts,
    problem: 'cannot end the connections of pods that ended',
    merge: (earlier, later) => earlier.union(later),
    run: (conntrack, addresses) => forgetSources(conntrack, addresses, which),
  });
}
