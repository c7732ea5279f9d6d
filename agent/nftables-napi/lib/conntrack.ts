import { type Binding, loadBinding } from './binding.ts';
import {
  type ConntrackEntry,
  deleteRequest,
  dumpRequest,
  type MarkFilter,
  markRequest,
  toConntrackEntry,
} from './conntrack-entry.ts';
import { answeredRequest, createRequest, type NewConnection } from './conntrack-new.ts';
import { ConntrackScan, type ScannedConnection } from './conntrack-scan.ts';
import type { NftError } from './errors.ts';
import { netlinkMessages } from './netlink-message.ts';
import { RawSocket } from './raw-socket.ts';

/** NETLINK_NETFILTER of linux/netlink.h. */
const NETFILTER = 12;
/** Requests in one call: their answers fit into the socket's buffer. */
const MOST = 256;

/**
 * The connections that the kernel tracks (ctnetlink), in the network namespace in which this object
 * is created. Needs CAP_NET_ADMIN (else EPERM) and nf_conntrack_netlink (else EINVAL or
 * EOPNOTSUPP). The constructor throws an NftError if the socket cannot be opened.
 */
export class Conntrack {
  readonly #binding: Binding;
  readonly #socket: RawSocket;

  /** `binding` is for tests only. */
  constructor(binding: Binding = loadBinding()) {
    this.#binding = binding;
    this.#socket = new RawSocket(NETFILTER, 'Conntrack', binding);
  }

  /**
   * All connections, or those with these bits in the mark, in chunks of about 1,000, each read
   * while the caller asks for it: memory does not depend on their number. A connection that begins
   * or ends meanwhile may be missing, or be there twice.
   */
  async *entries(
    filter: MarkFilter | null = null,
  ): AsyncGenerator<readonly ConntrackEntry[], void, undefined> {
    const socket = new RawSocket(NETFILTER, 'Conntrack', this.#binding);
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
    const socket = new RawSocket(NETFILTER, 'Conntrack', this.#binding);
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
   * Deletes entries: the next packet of each is that of a new connection. One result per entry:
   * null for success, ENOENT if it no longer exists, EBUSY if hardware forwards it.
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

  async #each<Entry>(
    entries: readonly Entry[],
    toRequest: (entry: Entry) => Uint8Array,
  ): Promise<(NftError | null)[]> {
    const results: (NftError | null)[] = [];
    for (let i = 0; i < entries.length; i += MOST) {
      const requests = entries.slice(i, i + MOST).map((entry) => toRequest(entry));
      const answers = await this.#socket.exchange(requests, () => 'connection');
      results.push(...answers.map(({ error }) => error));
    }
    return results;
  }
}
