import { Conntrack, type ConntrackEntry } from 'nftables-napi';
import { formatAddress } from '../../lib/net/address.ts';
import { unpackAddress } from '../../lib/net/member-set.ts';
import type { ClientWaker } from './client-waker.ts';
import type { EndedConnections } from './lingering.ts';
import { GATEWAY, MARK_MASK } from './render/marks.ts';

/**
 * Deletes what the kernel knows of connections that were steered: they are bound to an address, and
 * would go on with it. Their next packets are those of new connections.
 */
export async function forgetConnections(ended: EndedConnections | 'all'): Promise<void> {
  const conntrack = new Conntrack();
  try {
    for await (const entries of conntrack.entries()) {
      await conntrack.delete(entries.filter((entry) => isEnded(entry, ended)));
    }
  } finally {
    await conntrack.close();
  }
}

/** Wakes the clients of connections that are not deleted, because their next packet is reset. */
export async function wakeClients(
  { unopened }: EndedConnections,
  waker: Pick<ClientWaker, 'wake'>,
): Promise<void> {
  const conntrack = new Conntrack();
  try {
    for (const mark of unopened)
      for await (const entries of conntrack.entries({ mark, mask: MARK_MASK })) waker.wake(entries);
  } finally {
    await conntrack.close();
  }
}

/** TCP_CONNTRACK_SYN_SENT and TCP_CONNTRACK_SYN_SENT2: the server has not answered. */
const UNOPENED: ReadonlySet<number> = new Set([1, 9]);

function isEnded(entry: ConntrackEntry, ended: EndedConnections | 'all'): boolean {
  const { mark, family, reply } = entry;
  const own = mark & MARK_MASK;
  if (ended === 'all') return own !== 0;
  if (ended.marks.has(own)) return true;
  if (ended.unopened.has(own)) return entry.tcpState === null || UNOPENED.has(entry.tcpState);
  if ((own & GATEWAY) === 0 || ended.addresses.size === 0) return false;
  return ended.addresses.has(formatAddress(unpackAddress(family, reply.destination, 0)));
}
