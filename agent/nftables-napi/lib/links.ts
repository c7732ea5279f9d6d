import { loadBinding, type NativeLinkSocket, requireInteger } from './binding.ts';
import { ClosableLane } from './closable.ts';
import { type ErrnoTable, type NftError, plainError, toErrnoTable, toNftError } from './errors.ts';

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

const maximumIndex = 2 ** 31 - 1;
const maximumGroup = 2 ** 32 - 1;

/**
 * Sets the groups of links, in the network namespace in which it is created. RouteSocket reads
 * them.
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

  constructor() {
    const binding = loadBinding();
    this.#errnos = toErrnoTable(binding.errors);
    try {
      this.#socket = new binding.LinkSocket();
    } catch (error) {
      throw toNftError(error, this.#errnos);
    }
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
