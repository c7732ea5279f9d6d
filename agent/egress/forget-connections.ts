import { Conntrack, type ConntrackEntry } from 'nftables-napi';
import { formatAddress } from '../../lib/net/address.ts';
import { unpackAddress } from '../../lib/net/member-set.ts';
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

function isEnded({ mark, family, reply }: ConntrackEntry, ended: EndedConnections | 'all'): boolean {
  const own = mark & MARK_MASK;
  if (ended === 'all') return own !== 0;
  if (ended.marks.has(own)) return true;
  if ((own & GATEWAY) === 0 || ended.addresses.size === 0) return false;
  return ended.addresses.has(formatAddress(unpackAddress(family, reply.destination, 0)));
}
