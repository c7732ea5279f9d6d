import { requireInteger } from './arguments.ts';
import { type Binding, loadBinding, type NativeIpSocket } from './binding.ts';
import { type ErrnoTable, toErrnoTable, toNftError } from './errno.ts';
import { closedError } from './errors.ts';

/** Bytes: of an IP header, and of a packet at the usual MTU. */
const SHORTEST = { 4: 20, 6: 40 } as const;
const LONGEST = 1500;

/**
 * Sends whole IP packets, with their headers, from any source address, in the network namespace in
 * which it is created. They pass routing, conntrack and netfilter's hooks like the machine's own
 * packets. No call waits, so all are synchronous; nothing is received. Needs CAP_NET_RAW (else
 * EPERM). The constructor and `send` throw an NftError for errors of the kernel (EHOSTUNREACH,
 * EPERM where a rule drops it …), with code CLOSED after close().
 */
export class IpSocket {
  readonly #family: 4 | 6;
  readonly #errnos: ErrnoTable;
  #socket: NativeIpSocket | null;

  /** `binding` is for tests only. */
  constructor(family: 4 | 6, binding: Binding = loadBinding()) {
    if (family !== 4 && family !== 6) throw new RangeError('family must be 4 or 6');
    this.#family = family;
    this.#errnos = toErrnoTable(binding.errors);
    this.#socket = this.#attempt(() => new binding.IpSocket(family));
  }

  /**
   * A packet of the socket's family. The kernel computes the checksum of an IPv4 header, and no
   * other.
   */
  send(packet: Uint8Array): void {
    if (!(packet instanceof Uint8Array)) throw new TypeError('packet must be a Uint8Array');
    requireInteger(packet.length, 'length of the packet', SHORTEST[this.#family], LONGEST);
    if ((packet[0] ?? 0) >> 4 !== this.#family) throw new RangeError(`no packet of IPv${this.#family}`);
    this.#attempt(() => {
      if (this.#socket === null) throw closedError('IpSocket');
      this.#socket.send(packet);
    });
  }

  /** Idempotent. */
  close(): void {
    this.#socket?.close();
    this.#socket = null;
  }

  #attempt<Result>(call: () => Result): Result {
    try {
      return call();
    } catch (error) {
      throw toNftError(error, this.#errnos);
    }
  }
}
