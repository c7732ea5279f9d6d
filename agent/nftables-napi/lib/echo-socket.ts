import { loadBinding, type NativeEchoSocket, requireInteger } from './binding.ts';
import { NativeHandle } from './closable.ts';
import { toErrnoTable } from './errors.ts';

/** An echo request or reply of ICMP or ICMPv6. */
export interface Echo {
  /** The address of the other end: 4 or 16 bytes. */
  readonly address: Uint8Array;
  /** 16 bits each. */
  readonly identifier: number;
  readonly sequence: number;
  readonly data: Uint8Array;
}

export interface EchoReply extends Echo {
  /** Milliseconds since the kernel received it. */
  readonly age: number;
}

export interface EchoSocketOptions {
  /** Only by this network interface. */
  readonly device?: string;
  /** Only with this address: 4 or 16 bytes. */
  readonly peer?: Uint8Array;
  /**
   * A datagram socket (icmp(7)): needs no capability where net.ipv4.ping_group_range has the
   * process's group, else EACCES. The kernel chooses the identifier, and hands over the replies to
   * this socket's own requests alone.
   */
  readonly isDatagram?: boolean;
}

/** Types of messages; the code is 0. */
const TYPES = { 4: { request: 8, reply: 0 }, 6: { request: 128, reply: 129 } } as const;
const HEADER = 8;
const MOST_DATA = 64;
const LONGEST_NAME = 15;

/**
 * Sends echo requests, and receives the replies to anybody's requests that come to the network
 * namespace in which it is created: the caller compares address, identifier and data. No call
 * waits, so all are synchronous; replies stay in the socket's buffer (256 KiB) until they are asked
 * for. Needs CAP_NET_RAW (else EPERM), unless it is a datagram socket. The constructor and the
 * calls throw an NftError for errors of the kernel, ENODEV once the device is another one, with
 * code CLOSED after close().
 */
export class EchoSocket {
  readonly #family: 4 | 6;
  readonly #socket: NativeHandle<NativeEchoSocket>;

  constructor(
    family: 4 | 6,
    { device = '', peer = new Uint8Array(0), isDatagram = false }: EchoSocketOptions = {},
  ) {
    const binding = loadBinding();
    if (family !== 4 && family !== 6) throw new RangeError('family must be 4 or 6');
    requireInteger(device.length, 'length of device', 0, LONGEST_NAME);
    this.#family = family;
    if (peer.length > 0) this.#requireAddress(peer);
    const open = (): NativeEchoSocket => new binding.EchoSocket(family, device, peer, isDatagram);
    this.#socket = new NativeHandle('EchoSocket', toErrnoTable(binding.errors), open);
  }

  request({ address, identifier, sequence, data }: Echo): void {
    this.#requireAddress(address);
    requireInteger(identifier, 'identifier', 0, 0xffff);
    requireInteger(sequence, 'sequence', 0, 0xffff);
    requireInteger(data.length, 'length of data', 0, MOST_DATA);
    const message = Buffer.alloc(HEADER + data.length);
    message.writeUInt8(TYPES[this.#family].request, 0);
    message.writeUInt16BE(identifier, 4);
    message.writeUInt16BE(sequence, 6);
    message.set(data, HEADER);
    // The kernel computes that of ICMPv6.
    if (this.#family === 4) message.writeUInt16BE(checksum(message), 2);
    this.#socket.call((socket) => socket.send(address, message));
  }

  /** At most 256 of the replies that wait, oldest first; those that are too short are left out. */
  replies(): EchoReply[] {
    const received = this.#socket.call((socket) => socket.receive());
    return received.flatMap(({ source, message, age }): EchoReply[] => {
      const view = Buffer.from(message.buffer, message.byteOffset, message.length);
      if (view.length < HEADER || view.readUInt16BE(0) !== TYPES[this.#family].reply << 8) return [];
      const [identifier, sequence] = [view.readUInt16BE(4), view.readUInt16BE(6)];
      return [{ address: source, identifier, sequence, data: message.subarray(HEADER), age }];
    });
  }

  /** Idempotent. */
  close(): void {
    this.#socket.close();
  }

  #requireAddress(address: Uint8Array): void {
    const length = this.#family === 4 ? 4 : 16;
    if (!(address instanceof Uint8Array) || address.length !== length)
      throw new TypeError(`the address must have ${length} bytes`);
  }
}

/** RFC 1071; the field itself is 0 yet. */
function checksum(message: Buffer): number {
  let sum = 0;
  for (let i = 0; i < message.length; i += 2) sum += ((message[i] ?? 0) << 8) | (message[i + 1] ?? 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}
