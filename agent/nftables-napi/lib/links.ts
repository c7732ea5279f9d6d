import {
  type Binding,
  type Link,
  loadBinding,
  maximumReceiveBuffer,
  type NativeLinkEvent,
  type NativeLinkSocket,
  requireInteger,
} from './binding.ts';
import { ClosableLane, Listening } from './closable.ts';
import { type ErrnoTable, type NftError, plainError, toErrnoTable, toNftError } from './errors.ts';

/** An event of a link monitor. */
export type LinkEvent =
  /** New, or changed (not necessarily in a field of Link). */
  | { kind: 'link'; link: Link }
  /** Deleted, or moved to another namespace. */
  | { kind: 'removed'; index: number; name: string }
  /** Addresses of a link were added or removed (only with `addresses`). */
  | { kind: 'addresses' }
  /** The socket's buffer was full: an unknown number of events is lost. List all links again. */
  | { kind: 'overrun' }
  /** The socket failed; no more events come. */
  | { kind: 'error'; error: NftError };

/** Options of a LinkMonitor. */
export interface LinkMonitorOptions {
  /**
   * Bytes that the socket may buffer for a slow reader. Default 32 MiB; memory is only used while
   * data waits.
   */
  receiveBuffer?: number;
  /**
   * Also report that addresses of any link were added or removed (RTNLGRP_IPV4_IFADDR,
   * RTNLGRP_IPV6_IFADDR). Default false.
   */
  addresses?: boolean;
}

/** A link and the group to put it into. */
export interface LinkGroupChange {
  index: number;
  group: number;
  /**
   * Change the link only if it is in this group right before, else ESTALE. Not atomic, since the
   * kernel has no such condition: between check and change are about 10 µs.
   */
  from?: number;
}

const defaultReceiveBuffer = 32 * 1024 * 1024;
const maximumIndex = 2 ** 31 - 1;
const maximumGroup = 2 ** 32 - 1;

/**
 * Reports every change of the links in the network namespace in which it is created (RTNLGRP_LINK),
 * on a thread of its own; on request also changes of addresses. All events that are readable at one
 * time, at most 1,024, go to one call of the listener; while it is busy, the socket's buffer keeps
 * further events. Runs until close(), and keeps the process alive unless unref() was called.
 *
 * For a complete state, create the monitor first, then call LinkSocket.list(): changes in between
 * are reported by the monitor.
 *
 * While a link is down, the kernel does not report a changed group (netdev_state_change()); it
 * comes with the next event, at the latest when the link is set up.
 *
 * Needs no privileges. The constructor throws a TypeError or RangeError for wrong options, an
 * NftError if the socket cannot be opened. An exception of the listener is uncaught.
 */
export class LinkMonitor extends Listening {
  /** `binding` is for tests only. */
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
    super((whileOpen) => new binding.LinkMonitor(receiveBuffer, addresses, whileOpen(tell)), errnos);
  }
}

/**
 * An rtnetlink socket, bound to the network namespace in which it is created: reads links and sets
 * their groups.
 *
 * Calls run on libuv's thread pool, one after another in call order. All methods return promises
 * and never throw synchronously: they reject with a TypeError or RangeError for wrong arguments,
 * with an NftError for errors of the kernel, and with code CLOSED after close(). The constructor
 * throws an NftError if the socket cannot be opened.
 */
export class LinkSocket {
  readonly #errnos: ErrnoTable;
  readonly #socket: NativeLinkSocket;
  readonly #lane = new ClosableLane('LinkSocket');

  /** `binding` is for tests only. */
  constructor(binding: Binding = loadBinding()) {
    this.#errnos = toErrnoTable(binding.errors);
    try {
      this.#socket = new binding.LinkSocket();
    } catch (error) {
      throw toNftError(error, this.#errnos);
    }
  }

  /**
   * All links at one moment, by index. EINTR if links were added or removed during every attempt.
   */
  list(): Promise<Link[]> {
    return this.#run(() => this.#socket.list());
  }

  /** One result per index, null if there is no such link; each as of its own moment. */
  async getMany(indices: readonly number[]): Promise<(Link | null)[]> {
    if (!Array.isArray(indices)) throw new TypeError('indices must be an array');
    for (const index of indices) requireInteger(index, 'index', 1, maximumIndex);
    const native = Uint32Array.from(indices);
    return this.#run(() => this.#socket.getMany(native));
  }

  /**
   * Sets the groups of links and nothing else, in order and independently: one result per change,
   * null for success, ENODEV if there is no such link (any more), EPERM without CAP_NET_ADMIN.
   * Groups are 0 (the default of every link) to 2 ** 32 - 1. Rejects only if the call as a whole
   * fails.
   */
  async setGroups(changes: readonly LinkGroupChange[]): Promise<(NftError | null)[]> {
    if (!Array.isArray(changes)) throw new TypeError('changes must be an array');
    for (const { index, group, from = 0 } of changes) {
      // Index 0 would mean every link of a group.
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

  /** Waits for pending calls, then closes the socket. Idempotent. */
  close(): Promise<void> {
    return this.#lane.close(() => this.#socket.close());
  }

  #run<Result>(call: () => Promise<Result>): Promise<Result> {
    return this.#lane.run(call, (error) => toNftError(error, this.#errnos));
  }
}

function toLinkEvent({ kind, errno, link }: NativeLinkEvent, errnos: ErrnoTable): LinkEvent {
  if (kind === 2) return { kind: 'overrun' };
  if (kind === 4) return { kind: 'addresses' };
  if (link === null) return { kind: 'error', error: plainError(errno, 'link monitor', errnos) };
  return kind === 0 ? { kind: 'link', link } : { kind: 'removed', index: link.index, name: link.name };
}
