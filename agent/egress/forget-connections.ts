import { Conntrack, type ConntrackEntry, NftError } from 'nftables-napi';
import { formatAddress, parseAddress } from '../../lib/net/address.ts';
import { packAddress, unpackAddress } from '../../lib/net/member-set.ts';
import { Retried } from '../../lib/process/back-off.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import type { Kernel } from '../apply/netlink/kernel.ts';
import { type Match, plainRule } from '../render/ruleset.ts';
import type { ClientWaker } from './client-waker.ts';
import { type EndedConnections, mergeEnded } from './lingering.ts';
import { LABEL, MARK_CT, STEER } from './render/frame.ts';
import { GATEWAY, hasWay, MARK_MASK } from './render/marks.ts';

interface ForgettingConnectionsOptions
  extends Pick<RetriedDeletionOptions<EndedConnections>, 'clock' | 'log' | 'open'> {
  readonly waker: Pick<ClientWaker, 'wake'>;
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

/** all: on the pod's node. taken: those that leave by this node as a gateway. */
type ForgottenConnections = 'all' | 'taken';

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

interface ForgettingSourcesOptions extends Pick<ForgettingConnectionsOptions, 'clock' | 'log'> {
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

interface EndingSteps {
  /** Removes the network of egress gateways; resolves with what was removed. */
  readonly removeNetwork: () => Promise<string[]>;
  /** Default: forgetAll. */
  readonly forget?: () => Promise<void>;
}

/**
 * Ends what the table steers, before the table goes. First the tunnel goes, while the rules are
 * still whole: what has its way through it is dropped meanwhile. Later an answer that is on its
 * way in it would begin a connection of the server with the pod, and a gateway would forward what
 * comes out of it, and nothing translates these packets. Then no connection is steered any more,
 * and the packets of those that were are dropped until the kernel has forgotten these connections:
 * packets between two steps of the removal would leave with the pods' own addresses, as nothing
 * else translates a connection that we have translated.
 *
 * @returns what was removed of the network
 */
export async function endSteering(
  kernel: Pick<Kernel, 'chains' | 'transact'>,
  { removeNetwork, forget = forgetAll }: EndingSteps,
): Promise<string[]> {
  const { chains } = await kernel.chains([STEER]);
  if (chains.every(({ rules }) => rules.length === 0)) return [];
  try {
    return await removeNetwork();
  } finally {
    await dropSteered(kernel);
    await forget();
  }
}

async function dropSteered(kernel: Pick<Kernel, 'transact'>): Promise<void> {
  const marked = MARK_CT(MARK_MASK, 0, true);
  try {
    await dropOnly(kernel, [marked, LABEL(false)]);
  } catch (error) {
    // A kernel without CONFIG_NF_CONNTRACK_LABELS: no connection has any.
    if (!(error instanceof NftError && error.code === 'EOPNOTSUPP')) throw error;
    await dropOnly(kernel, [marked]);
  }
}

async function dropOnly(kernel: Pick<Kernel, 'transact'>, matches: readonly Match[]): Promise<void> {
  await kernel.transact([
    { kind: 'flushChain', name: STEER },
    ...matches.map(
      (match) =>
        ({ kind: 'addRule', chain: STEER, rule: plainRule({ kind: 'drop' }, match), source: null }) as const,
    ),
  ]);
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

/** Milliseconds between attempts while the kernel refuses. */
const DELETION_WAITS = { first: 1_000, longest: 60_000 } as const;

/** The kernel's table of connections. */
type Connections = Pick<Conntrack, 'entries' | 'delete' | 'close'>;

interface RetriedDeletionOptions<Work> {
  readonly clock: Clock;
  readonly log: Pick<Log, 'error'>;
  /** Logged after a failure: what could not be done. */
  readonly problem: string;
  readonly merge: (earlier: Work, later: Work) => Work;
  /** Resolves with why an entry is still there; null: none is. */
  readonly run: (conntrack: Connections, work: Work) => Promise<NftError | null>;
  /** Default: the kernel. */
  readonly open?: () => Connections;
}

/** Deletes connections, one pass over the kernel's table at a time, until none is refused. */
function retriedDeletion<Work>(options: RetriedDeletionOptions<Work>): Retried<Work> {
  const { clock, log, problem, merge, run, open = () => new Conntrack() } = options;
  return new Retried({
    clock,
    waits: DELETION_WAITS,
    merge,
    async run(work) {
      const conntrack = open();
      try {
        const refusal = await run(conntrack, work);
        if (refusal !== null) throw refusal;
      } finally {
        await conntrack.close();
      }
    },
    failed: ({ message }, retryIn) =>
      void log.error(`${problem}; trying again`, { stage: 'apply', error: message, retryIn }),
  });
}

/**
 * Deletes these connections from the kernel's table, in one pass.
 *
 * @returns why one of them is still there; null: none is
 */
async function deleteWhere(
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
