import {
  type ConntrackEntry,
  CT_NEW,
  CTA,
  CTA_TUPLE,
  deleteRequest,
  dumpRequest,
  type MarkFilter,
  markRequest,
  networkOrder,
  SOCKET_FAMILIES,
  toConntrackEntry,
} from './conntrack-entry.ts';
import { ConntrackScan, type ScannedConnection } from './conntrack-scan.ts';
import type { NftError } from './errors.ts';
import {
  attribute,
  NLM_F_CREATE,
  NLM_F_EXCL,
  NLM_F_REQUEST,
  nest,
  netlinkMessages,
  toMessage,
} from './netlink-message.ts';
import { RawSocket } from './raw-socket.ts';

/** NETLINK_NETFILTER of linux/netlink.h. */
const NETFILTER = 12;

/**
 * The connections that the kernel tracks (ctnetlink), in the network namespace in which this object
 * is created. Needs CAP_NET_ADMIN (else EPERM) and nf_conntrack_netlink (else EINVAL or
 * EOPNOTSUPP). The constructor throws an NftError if the socket cannot be opened.
 */
export class Conntrack {
  readonly #socket = new RawSocket(NETFILTER, 'Conntrack');

  /**
   * All connections, or those with these bits in the mark, in chunks of about 1,000, each read
   * while the caller asks for it: memory does not depend on their number. A connection that begins
   * or ends meanwhile may be missing, or be there twice.
   */
  async *entries(
    filter: MarkFilter | null = null,
  ): AsyncGenerator<readonly ConntrackEntry[], void, undefined> {
    const socket = new RawSocket(NETFILTER, 'Conntrack');
    try {
      for await (const chunk of socket.dump(dumpRequest(filter))) {
        const entries: ConntrackEntry[] = [];
        for (const message of netlinkMessages(chunk)) {
          const entry = toConntrackEntry(message);
          if (entry !== null) entries.push(entry);
        }
        yield entries;
      }
    } finally {
      await socket.close();
    }
  }

  /**
   * Visits all connections, each while it is read; `pause` is awaited after each chunk of about
   * 1,000, and false ends it. What is said of `entries` is true here.
   */
  async scan(
    visit: (connection: ScannedConnection) => void,
    pause: () => Promise<boolean> | boolean,
  ): Promise<void> {
    const socket = new RawSocket(NETFILTER, 'Conntrack');
    const scan = new ConntrackScan();
    try {
      for await (const chunk of socket.dump(dumpRequest(null))) {
        scan.each(chunk, visit);
        if (!(await pause())) break;
      }
    } finally {
      await socket.close();
    }
  }

  /**
   * Deletes entries: the next packet of each is that of a new connection; a flowtable, or hardware,
   * forwards on for about a second. One result per entry: null for success, ENOENT if it no longer
   * exists, EBUSY if a flowtable has it, and Linux before 6.4 lacks the fix of stable series.
   */
  delete(entries: readonly ConntrackEntry[]): Promise<(NftError | null)[]> {
    return this.#each(entries, deleteRequest);
  }

  /**
   * Sets those bits of the connections' marks that are in the mask. One result per entry: null for
   * success, ENOENT if it no longer exists.
   */
  mark(entries: readonly ConntrackEntry[], mark: number, mask: number): Promise<(NftError | null)[]> {
    return this.#each(entries, (entry) => markRequest(entry, mark, mask));
  }

  /**
   * Adds connections that the kernel does not track, as if it had from their first packet on; one
   * that it tracks keeps its direction and becomes an answered one, if this one is. Needs no rule
   * that tracks connections. One result per connection: null for success, ENOMEM if the table is
   * full (nf_conntrack_max).
   */
  async add(connections: readonly NewConnection[]): Promise<(NftError | null)[]> {
    const results = await this.#each(connections, createRequest);
    const tracked = [...results.keys()].filter((i) => results[i]?.code === 'EEXIST');
    for (const i of tracked) results[i] = null;
    const answered = tracked.flatMap((i) => connections[i] ?? []).filter(({ isAnswered }) => isAnswered);
    // A refused entry has ended, or is related to another connection.
    await this.#each(answered, answeredRequest);
    return results;
  }

  /** Waits for pending calls, then closes the socket. Idempotent. */
  close(): Promise<void> {
    return this.#socket.close();
  }

  #each<Entry>(entries: readonly Entry[], toRequest: (entry: Entry) => Uint8Array) {
    return this.#socket.each(entries, toRequest, () => 'connection');
  }
}

/** A connection of TCP or UDP without NAT, as its first packet had it. */
export interface NewConnection {
  readonly protocol: 6 | 17;
  /** 4 or 16 bytes. */
  readonly source: Uint8Array;
  readonly destination: Uint8Array;
  readonly sourcePort: number;
  readonly destinationPort: number;
  /** One of TCP_CONNTRACK; null for UDP. */
  readonly tcpState: number | null;
  /** The other end has answered: packets of both directions are established. */
  readonly isAnswered: boolean;
  /** Seconds without a packet after which the kernel forgets it; its first packet sets another. */
  readonly timeout: number;
}

/** TCP_CONNTRACK_* of linux/netfilter/nf_conntrack_tcp.h. */
export const TCP_CONNTRACK = { synSent: 1, synReceived: 2, established: 3, timeWait: 7 } as const;

/** IPS_* of linux/netfilter/nf_conntrack_common.h. */
const SEEN_REPLY = 1 << 1;
const ASSURED = 1 << 2;
const CONFIRMED = 1 << 3;
/** enum ctattr_protoinfo and ctattr_protoinfo_tcp. */
const TCP_INFO = { tcp: 1, state: 1, flagsOriginal: 4, flagsReply: 5 } as const;
/** IP_CT_TCP_FLAG_BE_LIBERAL, as value and as mask: windows and their scale are not known. */
const LIBERAL = Uint8Array.of(8, 8);

/** Adds the connection; EEXIST if one of its directions is tracked already. */
function createRequest(connection: NewConnection): Uint8Array {
  const { tcpState, timeout } = connection;
  const parts = [
    ...tuples(connection),
    attribute(CTA.status, networkOrder(statusOf(connection))),
    attribute(CTA.timeout, networkOrder(timeout)),
    ...(tcpState === null ? [] : [tcpInfo(tcpState)]),
  ];
  return message(connection, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL, parts);
}

/** Makes a tracked connection an answered one. */
function answeredRequest(connection: NewConnection): Uint8Array {
  const [original] = tuples(connection);
  return message(connection, NLM_F_REQUEST, [
    original,
    attribute(CTA.status, networkOrder(statusOf(connection))),
  ]);
}

function statusOf({ isAnswered }: NewConnection): number {
  return isAnswered ? CONFIRMED | SEEN_REPLY | ASSURED : CONFIRMED;
}

function message({ source }: NewConnection, flags: number, parts: readonly Uint8Array[]): Uint8Array {
  const family = SOCKET_FAMILIES[source.length === 4 ? 4 : 6];
  return toMessage(CT_NEW, flags, [Uint8Array.of(family, 0, 0, 0), ...parts]);
}

function tuples({ protocol, source, destination, sourcePort, destinationPort }: NewConnection) {
  const there = tuple(protocol, [source, sourcePort], [destination, destinationPort]);
  const back = tuple(protocol, [destination, destinationPort], [source, sourcePort]);
  return [nest(CTA.original, there), nest(CTA.reply, back)] as const;
}

type End = readonly [address: Uint8Array, port: number];

/** enum ctattr_ip and ctattr_l4proto. */
function tuple(protocol: number, [source, from]: End, [destination, to]: End): Uint8Array[] {
  const first = source.length === 4 ? 1 : 3;
  return [
    nest(CTA_TUPLE.addresses, [attribute(first, source), attribute(first + 1, destination)]),
    nest(CTA_TUPLE.protocol, [
      attribute(1, Uint8Array.of(protocol)),
      attribute(2, bytes16(from)),
      attribute(3, bytes16(to)),
    ]),
  ];
}

function tcpInfo(state: number): Uint8Array {
  return nest(CTA.protocolInfo, [
    nest(TCP_INFO.tcp, [
      attribute(TCP_INFO.state, Uint8Array.of(state)),
      attribute(TCP_INFO.flagsOriginal, LIBERAL),
      attribute(TCP_INFO.flagsReply, LIBERAL),
    ]),
  ]);
}

function bytes16(value: number): Uint8Array {
  return Uint8Array.of(value >> 8, value & 255);
}
