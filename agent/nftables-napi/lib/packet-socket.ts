import { requireInteger } from './arguments.ts';
import { type Binding, loadBinding, type NativePacketSocket } from './binding.ts';
import { type ErrnoTable, toErrnoTable, toNftError } from './errno.ts';
import { closedError } from './errors.ts';

/** arp: ARP. ndp: neighbour solicitations and advertisements of IPv6. */
export type PacketProtocol = 'arp' | 'ndp';

/** ETH_P_* of linux/if_ether.h. */
const PROTOCOLS = { arp: 0x0806, ndp: 0x86dd } as const;
/** Bytes: of an Ethernet header, and of a whole frame at the usual MTU. */
const SHORTEST = 14;
const LONGEST = 1514;

/**
 * Sends and receives Ethernet frames of one protocol on one link, in the network namespace in which
 * it is created. send() and receive() do not wait. It sees frames before netfilter does, and its
 * own pass no hook of netfilter; those that the machine sends are not seen. Needs CAP_NET_RAW
 * (else EPERM). The constructor and the calls throw an NftError for errors of the kernel (ENODEV,
 * ENETDOWN …), with code CLOSED after close().
 */
export class PacketSocket {
  readonly #errnos: ErrnoTable;
  #socket: NativePacketSocket | null;

  /** @param link its index. `binding` is for tests only. */
  constructor(link: number, protocol: PacketProtocol, binding: Binding = loadBinding()) {
    requireInteger(link, 'link', 1, 2 ** 31 - 1);
    if (!Object.hasOwn(PROTOCOLS, protocol)) throw new TypeError(`unknown protocol ${String(protocol)}`);
    this.#errnos = toErrnoTable(binding.errors);
    this.#socket = this.#attempt(() => new binding.PacketSocket(link, PROTOCOLS[protocol]));
  }

  /** A whole frame, with its Ethernet header. The kernel takes it at once or refuses it. */
  send(frame: Uint8Array): void {
    if (!(frame instanceof Uint8Array)) throw new TypeError('frame must be a Uint8Array');
    requireInteger(frame.length, 'length of the frame', SHORTEST, LONGEST);
    this.#attempt(() => this.#open().send(frame));
  }

  /** At most 64 of the frames that wait, oldest first. The socket's buffer holds about 200. */
  receive(): Uint8Array[] {
    return this.#attempt(() => this.#open().receive());
  }

  /** Idempotent. The kernel takes 5 to 20 ms for it, in which this thread goes on. */
  async close(): Promise<void> {
    const socket = this.#socket;
    this.#socket = null;
    await socket?.close();
  }

  #open(): NativePacketSocket {
    if (this.#socket === null) throw closedError('PacketSocket');
    return this.#socket;
  }

  #attempt<Result>(call: () => Result): Result {
    try {
      return call();
    } catch (error) {
      throw toNftError(error, this.#errnos);
    }
  }
}
