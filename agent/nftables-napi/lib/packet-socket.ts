import { loadBinding, type NativeIpSocket, type NativePacketSocket, requireInteger } from './binding.ts';
import { NativeHandle } from './closable.ts';
import { toErrnoTable } from './errors.ts';

/** arp: ARP. ndp: neighbour solicitations and advertisements of IPv6. */
export type PacketProtocol = 'arp' | 'ndp';

/** ETH_P_* of linux/if_ether.h. */
const PROTOCOLS = { arp: 0x0806, ndp: 0x86dd } as const;
/** Bytes of an Ethernet header, and of a whole frame at the usual MTU. */
const ETHERNET_HEADER = 14;
const LONGEST_FRAME = 1514;

/**
 * Sends and receives Ethernet frames of one protocol on one link, in the network namespace in which
 * it is created. send() and receive() do not wait. It sees frames before netfilter does, and its
 * own pass no hook of netfilter; those that the machine sends are not seen. Needs CAP_NET_RAW
 * (else EPERM). The constructor and the calls throw an NftError for errors of the kernel (ENODEV,
 * ENETDOWN …), with code CLOSED after close().
 */
export class PacketSocket {
  readonly #socket: NativeHandle<NativePacketSocket>;

  /** @param link its index. */
  constructor(link: number, protocol: PacketProtocol) {
    const binding = loadBinding();
    requireInteger(link, 'link', 1, 2 ** 31 - 1);
    if (!Object.hasOwn(PROTOCOLS, protocol)) throw new TypeError(`unknown protocol ${String(protocol)}`);
    const open = (): NativePacketSocket => new binding.PacketSocket(link, PROTOCOLS[protocol]);
    this.#socket = new NativeHandle('PacketSocket', toErrnoTable(binding.errors), open);
  }

  /** A whole frame, with its Ethernet header. The kernel takes it at once or refuses it. */
  send(frame: Uint8Array): void {
    if (!(frame instanceof Uint8Array)) throw new TypeError('frame must be a Uint8Array');
    requireInteger(frame.length, 'length of the frame', ETHERNET_HEADER, LONGEST_FRAME);
    this.#socket.call((socket) => socket.send(frame));
  }

  /** At most 64 of the frames that wait, oldest first. The socket's buffer holds about 200. */
  receive(): Uint8Array[] {
    return this.#socket.call((socket) => socket.receive());
  }

  /** Idempotent. The kernel takes 5 to 20 ms for it, in which this thread goes on. */
  async close(): Promise<void> {
    await this.#socket.close();
  }
}

/** Bytes of an IP header, and of a packet at the usual MTU. */
const IP_HEADER = { 4: 20, 6: 40 } as const;
const LONGEST_PACKET = 1500;

/**
 * Sends whole IP packets, with their headers, from any source address, in the network namespace in
 * which it is created. They pass routing, conntrack and netfilter's hooks like the machine's own
 * packets. No call waits, so all are synchronous; nothing is received. Needs CAP_NET_RAW (else
 * EPERM). The constructor and `send` throw an NftError for errors of the kernel (EHOSTUNREACH,
 * EPERM where a rule drops it …), with code CLOSED after close().
 */
export class IpSocket {
  readonly #family: 4 | 6;
  readonly #socket: NativeHandle<NativeIpSocket>;

  constructor(family: 4 | 6) {
    const binding = loadBinding();
    if (family !== 4 && family !== 6) throw new RangeError('family must be 4 or 6');
    this.#family = family;
    const errnos = toErrnoTable(binding.errors);
    this.#socket = new NativeHandle('IpSocket', errnos, () => new binding.IpSocket(family));
  }

  /**
   * A packet of the socket's family. The kernel computes the checksum of an IPv4 header, and no
   * other.
   */
  send(packet: Uint8Array): void {
    if (!(packet instanceof Uint8Array)) throw new TypeError('packet must be a Uint8Array');
    requireInteger(packet.length, 'length of the packet', IP_HEADER[this.#family], LONGEST_PACKET);
    if ((packet[0] ?? 0) >> 4 !== this.#family) throw new RangeError(`no packet of IPv${this.#family}`);
    this.#socket.call((socket) => socket.send(packet));
  }

  /** Idempotent. */
  close(): void {
    this.#socket.close();
  }
}
