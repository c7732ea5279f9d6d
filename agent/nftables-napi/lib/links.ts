import { type Binding, loadBinding, type NativeLinkEvent, type NativeLinkSocket } from './binding.ts';
import { type ErrnoTable, plainError, toErrnoTable, toNftError } from './errno.ts';
import type { NftError } from './errors.ts';
import { maximumReceiveBuffer, requireInteger } from './integer.ts';
import { Lane } from './lane.ts';
import type { Link } from './link.ts';
import { Listening } from './listening.ts';

/** What a link monitor tells. */
export type LinkEvent =
  /** New, or something of it changed (not necessarily something that is in Link). */
  | { kind: 'link'; link: Link }
  /** Deleted, or moved to another namespace. */
  | { kind: 'removed'; index: number; name: string }
  /** A link has an address more or less (only with `addresses`). */
  | { kind: 'addresses' }
  /** The socket's buffer was full: an unknown number of events is lost. List everything. */
  | { kind: 'overrun' }
  /** The socket failed; nothing more comes. */
  | { kind: 'error'; error: NftError };

/** How to listen. */
export interface LinkMonitorOptions {
  /**
   * Bytes the socket may hold back for a slow reader. Default 32 MiB; memory is only used when
   * there is something to hold.
   */
  receiveBuffer?: number;
  /**
   * Tell also that addresses came or went, of any link (RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR).
   * Default false.
   */
  addresses?: boolean;
}

/** A link and the group it shall be in. */
export interface LinkGroupChange {
  index: number;
  group: number;
  /**
   * Only where it is in this group right before (the kernel knows no such condition: between the
   * two is about 10 µs); else ESTALE.
   */
  from?: number;
}

const defaultReceiveBuffer = 32 * 1024 * 1024;
const maximumIndex = 2 ** 31 - 1;
const maximumGroup = 2 ** 32 - 1;

/**
 * Tells of every change of the links in the network namespace the process is in when it is made
 * (RTNLGRP_LINK), on a thread of its own; of addresses where it is asked to. Everything there is to
 * read at one time, up to 1,024 events, is one call of the listener; while the listener is busy the
 * socket's buffer keeps what comes. Runs until close(), and keeps the process alive unless unref()
 * was called.
 *
 * For a complete picture make the monitor first, then LinkSocket.list(): what changes meanwhile is
 * told again.
 *
 * The kernel does not tell of a changed group while the link is down (netdev_state_change()); it
 * comes with the next event, at the latest when the link is set up.
 *
 * Needs no privileges. Creating it throws TypeError or RangeError for wrong options, NftError when
 * no socket can be had. What the listener throws is an uncaught exception.
 */
export class LinkMonitor extends Listening {
  /** `binding` is only given by tests. */
  constructor(
    options: LinkMonitorOptions,
    listener: (events: readonly LinkEvent[]) => void,
    binding: Binding = loadBinding(),
  ) {
    const { receiveBuffer = defaultReceiveBuffer, addresses = false } = options;
    requireInteger(receiveBuffer, 'receiveBuffer', 1, maximumReceiveBuffer);
    if (typeof listener !== 'function') throw new TypeError('listener must be a function');
    const errnos = toErrnoTable(binding.errors);
    const tell = (events: readonly NativeLinkEvent[]): void =>
      listener(events.map((event) => toLinkEvent(event, errnos)));
    super(
      (whileOpen) => new binding.LinkMonitor(receiveBuffer, addresses, whileOpen(tell)),
      (error) => toNftError(error, errnos),
    );
  }
}

/**
 * An rtnetlink socket, bound to the network namespace the process is in when it is made: what links
 * there are, and their groups.
 *
 * Calls run on libuv's thread pool, one after another in the order they were made. All methods
 * return promises and never throw synchronously: wrong arguments are TypeError or RangeError,
 * refusals of the kernel are NftError, calls after close() have code CLOSED. The constructor throws
 * NftError when no socket can be had.
 */
export class LinkSocket {
  readonly #errnos: ErrnoTable;
  readonly #socket: NativeLinkSocket;
  readonly #lane = new Lane('LinkSocket');

  /** `binding` is only given by tests. */
  constructor(binding: Binding = loadBinding()) {
    this.#errnos = toErrnoTable(binding.errors);
    try {
      this.#socket = new binding.LinkSocket();
    } catch (error) {
      throw toNftError(error, this.#errnos);
    }
  }

  /**
   * All links as of one moment, by index. EINTR if links kept coming and going during every
   * attempt.
   */
  list(): Promise<Link[]> {
    return this.#run(() => this.#socket.list());
  }

  /** One link, null if there is none with this index. */
  async get(index: number): Promise<Link | null> {
    const [link = null] = await this.getMany([index]);
    return link;
  }

  /** One answer for each index, null where there is no such link; each as of its own moment. */
  async getMany(indices: readonly number[]): Promise<(Link | null)[]> {
    if (!Array.isArray(indices)) throw new TypeError('indices must be an array');
    for (const index of indices) requireInteger(index, 'index', 1, maximumIndex);
    const native = Uint32Array.from(indices);
    return this.#run(() => this.#socket.getMany(native));
  }

  /**
   * Puts a link into a group, and changes nothing else of it. Groups are 0 (where every link
   * begins) to 2 ** 32 - 1. ENODEV if there is no such link (any more). Needs CAP_NET_ADMIN (else
   * EPERM).
   */
  async setGroup(index: number, group: number): Promise<void> {
    const [error] = await this.setGroups([{ index, group }]);
    if (error) throw error;
  }

  /**
   * Does it for many links, in order and independently of each other: one answer for each change,
   * null where it is done. Rejects only if the call as a whole is wrong.
   */
  async setGroups(changes: readonly LinkGroupChange[]): Promise<(NftError | null)[]> {
    if (!Array.isArray(changes)) throw new TypeError('changes must be an array');
    for (const { index, group, from = 0 } of changes) {
      // Index 0 would stand for every link of a group.
      requireInteger(index, 'index', 1, maximumIndex);
      requireInteger(group, 'group', 0, maximumGroup);
      requireInteger(from, 'from', 0, maximumGroup);
    }
    const indices = Uint32Array.from(changes, ({ index }) => index);
    const groups = Uint32Array.from(changes, ({ group }) => group);
    const from = Float64Array.from(changes, ({ from: wanted }) => wanted ?? -1);
    const answers = await this.#run(() => this.#socket.setGroups(indices, groups, from));
    return Array.from(answers, (errno, i) =>
      errno === 0 ? null : plainError(errno, `group ${groups[i]} of link ${indices[i]}`, this.#errnos),
    );
  }

  /** Waits for the calls under way, then closes the socket. Idempotent. */
  close(): Promise<void> {
    return this.#lane.close(() => this.#socket.close());
  }

  #run<Result>(call: () => Promise<Result>): Promise<Result> {
    return this.#lane.run(async () => {
      try {
        return await call();
      } catch (error) {
        throw toNftError(error, this.#errnos);
      }
    });
  }
}

function toLinkEvent({ kind, errno, link }: NativeLinkEvent, errnos: ErrnoTable): LinkEvent {
  if (kind === 2) return { kind: 'overrun' };
  if (kind === 4) return { kind: 'addresses' };
  if (link === null) return { kind: 'error', error: plainError(errno, 'link monitor', errnos) };
  return kind === 0 ? { kind: 'link', link } : { kind: 'removed', index: link.index, name: link.name };
}
