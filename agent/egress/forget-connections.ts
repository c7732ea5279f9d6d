import { Conntrack, type ConntrackEntry } from 'nftables-napi';
import { formatAddress } from '../../lib/net/address.ts';
import { unpackAddress } from '../../lib/net/member-set.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import type { Retried } from '../../lib/process/retried.ts';
import type { ClientWaker } from './client-waker.ts';
import { deleteWhere } from './delete-where.ts';
import { type EndedConnections, mergeEnded } from './lingering.ts';
import { GATEWAY, hasWay, MARK_MASK } from './render/marks.ts';
import { type Connections, retriedDeletion } from './retried-deletion.ts';

interface ForgettingConnectionsOptions {
  readonly clock: Clock;
  readonly log: Pick<Log, 'error'>;
  readonly waker: Pick<ClientWaker, 'wake'>;
  /** Default: the kernel. */
  readonly open?: () => Connections;
}

/**
 * Ends connections that cannot go on as they were, and tries again what the kernel refused. Then a
 * mark or an address may be in use again, and connections that began meanwhile are ended as well:
 * they cannot be told from those that would leave by the wrong gateway, and begin anew.
 */
export function forgettingConnections(options: ForgettingConnectionsOptions): Retried<EndedConnections> {
  const { waker, ...rest } = options;
  return retriedDeletion({
    ...rest,
    problem: 'cannot end connections whose gateway changed',
    merge: mergeEnded,
    async run(conntrack, ended) {
      await wakeClients(conntrack, ended, waker);
      return await deleteWhere(conntrack, (entry) => isEnded(entry, ended));
    },
  });
}

/** At most so many passes: others may write marks that look like ours all the time. */
const PASSES = 10;

/**
 * Deletes what the kernel knows of all connections that were steered: they are bound to an address,
 * and would go on with it. Their next packets are those of new connections. One that the kernel
 * does not delete is left. A pass misses a connection whose first packet is on its way yet, so the
 * last one is one that finds none.
 */
export async function forgetAll(open: () => Connections = () => new Conntrack()): Promise<void> {
  const conntrack = open();
  try {
    for (let pass = 0, found = 1; found > 0 && pass < PASSES; pass++) {
      found = 0;
      await deleteWhere(conntrack, ({ mark, labels }) => {
        const isMeant = (mark & MARK_MASK) !== 0 || hasWay(labels);
        if (isMeant) found++;
        return isMeant;
      });
    }
  } finally {
    await conntrack.close();
  }
}

/** Wakes the clients of connections that are not deleted, because their next packet is reset. */
async function wakeClients(
  conntrack: Pick<Conntrack, 'entries'>,
  { unopened }: EndedConnections,
  waker: Pick<ClientWaker, 'wake'>,
): Promise<void> {
  for (const mark of unopened)
    for await (const entries of conntrack.entries({ mark, mask: MARK_MASK })) waker.wake(entries);
}

/** TCP_CONNTRACK_SYN_SENT and TCP_CONNTRACK_SYN_SENT2: the server has not answered. */
const UNOPENED: ReadonlySet<number> = new Set([1, 9]);

function isEnded(entry: ConntrackEntry, ended: EndedConnections): boolean {
  const { mark, family, reply } = entry;
  const own = mark & MARK_MASK;
  if (ended.marks.has(own)) return true;
  if (ended.unopened.has(own)) return entry.tcpState === null || UNOPENED.has(entry.tcpState);
  if ((own & GATEWAY) === 0 || ended.addresses.size === 0) return false;
  return ended.addresses.has(formatAddress(unpackAddress(family, reply.destination, 0)));
}
