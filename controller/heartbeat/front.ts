import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { ListenAddress } from '../../lib/process/option-value.ts';
import { ConnectionLimit } from '../../lib/process/server-connections.ts';
import { present } from '../../lib/sharing/present.ts';
import { BACKLOG, SERVER_LIMITS } from '../publish/limits.ts';

interface FrontOptions {
  /** Clients that offer this protocol (ALPN) are ours. */
  readonly protocol: string;
  /** The most connections that are neither ours nor taken yet; asked at each new one. */
  readonly most: () => number;
  /** A connection with what was read of it; the socket is paused. */
  readonly ours: (socket: Socket) => void;
  /** Calls back when the other side has taken it. */
  readonly others: (bytes: Uint8Array, socket: Socket, taken: () => void) => void;
}

/** Accepts all connections, and sends each where it belongs by the first bytes of its client. */
export class Front {
  readonly #options: FrontOptions;
  readonly #server: Server;
  /** Handed over, and not taken yet. */
  #waiting = 0;

  constructor(options: FrontOptions) {
    this.#options = options;
    this.#server = createServer({ pauseOnConnect: true, noDelay: true }, (socket) => this.#accept(socket));
    const { connectionsOfSource: mostOfSource, patience } = SERVER_LIMITS;
    new ConnectionLimit(this.#server, { most: options.most, mostOfSource, patience });
  }

  /** Resolves when it listens. Rejects with the error of the system. */
  listen({ host, port }: ListenAddress): Promise<AddressInfo> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ port, backlog: BACKLOG, ...present({ host }) }, () => {
        this.#server.off('error', reject);
        // An accept that fails (no free file descriptor) must not end the process.
        this.#server.on('error', () => {});
        resolve(this.#server.address() as AddressInfo);
      });
    });
  }

  /** Accepts no more. */
  stop(): void {
    this.#server.close();
  }

  #accept(socket: Socket): void {
    let bytes: Buffer = Buffer.alloc(0);
    const late = setTimeout(() => socket.destroy(), SERVER_LIMITS.handshake);
    const forget = (): void => clearTimeout(late);
    const failed = (): void => {};
    const receive = (more: Buffer): void => {
      bytes = bytes.length === 0 ? more : Buffer.concat([bytes, more]);
      const isOurs = offersProtocol(bytes, this.#options.protocol);
      if (isOurs === null) return;
      forget();
      socket.pause();
      socket.off('data', receive).off('close', forget);
      if (isOurs) {
        socket.off('error', failed);
        socket.unshift(bytes);
        this.#options.ours(socket);
      } else this.#handOver(bytes, socket);
    };
    socket.on('data', receive).on('error', failed).on('close', forget);
    // A client that ends before is not served.
    socket.once('end', () => socket.destroy());
    socket.resume();
  }

  #handOver(bytes: Buffer, socket: Socket): void {
    if (this.#waiting >= this.#options.most()) return void socket.destroy();
    stopReading(socket);
    this.#waiting++;
    this.#options.others(bytes, socket, () => {
      this.#waiting--;
      // Its connection is the other process's; here it no longer counts.
      socket.destroy();
    });
  }
}

/**
 * `pause` alone leaves the kernel's socket being read: what the client answers to the process that
 * has the connection next would come here. Node.js has no public call for it.
 */
function stopReading(socket: Socket): void {
  (socket as Socket & { readonly _handle: { readStop(): void } | null })._handle?.readStop();
}

/** A TLS record, a handshake message (RFC 8446), and the extension of ALPN (RFC 7301). */
const HANDSHAKE = 22;
const CLIENT_HELLO = { type: 1, head: 4 } as const;
const ALPN = 16;
/** Bytes: a ClientHello of a browser has 2,000, with keys against quantum computers. */
export const MOST_HELLO = 16 << 10;

/** Reads numbers and bytes one after the other; beyond the end all is missing. */
class Reader {
  readonly #bytes: Uint8Array;
  #at = 0;
  isShort = false;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get left(): number {
    return this.#bytes.length - this.#at;
  }

  number(length: number): number {
    let value = 0;
    for (const byte of this.bytes(length)) value = value * 256 + byte;
    return value;
  }

  bytes(length: number): Uint8Array {
    if (length > this.left) this.isShort = true;
    const found = this.#bytes.subarray(this.#at, this.#at + length);
    this.#at += found.length;
    return found;
  }

  /** A list whose length stands before it, in so many bytes. */
  list(lengthBytes: number): Reader {
    return new Reader(this.bytes(this.number(lengthBytes)));
  }
}

/**
 * Whether the first bytes of a connection are of a TLS client that offers the protocol; null: more
 * of them are needed. False for all that is not TLS.
 */
export function offersProtocol(bytes: Uint8Array, protocol: string): boolean | null {
  const message = handshakeOf(bytes);
  if (message === null) return bytes.length >= MOST_HELLO ? false : null;
  const hello = new Reader(message);
  // Version and random.
  hello.bytes(2 + 32);
  // Session, cipher suites, compressions.
  for (const lengthBytes of [1, 2, 1]) hello.list(lengthBytes);
  const extensions = hello.list(2);
  while (extensions.left > 0 && !extensions.isShort) {
    const type = extensions.number(2);
    const extension = extensions.list(2);
    if (type === ALPN) return namesOf(extension.list(2)).includes(protocol);
  }
  return false;
}

function namesOf(list: Reader): string[] {
  const names: string[] = [];
  while (list.left > 0) names.push(Buffer.from(list.bytes(list.number(1))).toString('latin1'));
  return names;
}

/**
 * The ClientHello, which may come in several records; null: it is not whole yet. Empty: there is
 * none.
 */
function handshakeOf(bytes: Uint8Array): Uint8Array | null {
  const records = new Reader(bytes);
  const parts: Uint8Array[] = [];
  for (let length = 0; ; ) {
    if (records.left === 0) return null;
    if (records.number(1) !== HANDSHAKE) return new Uint8Array();
    // Its version.
    records.bytes(2);
    parts.push(records.bytes(records.number(2)));
    length += parts.at(-1)?.length ?? 0;
    const isCut = records.isShort;
    if (length >= CLIENT_HELLO.head) {
      const message = new Reader(Buffer.concat(parts));
      if (message.number(1) !== CLIENT_HELLO.type) return new Uint8Array();
      const wanted = message.number(3);
      if (wanted > MOST_HELLO) return new Uint8Array();
      if (message.left >= wanted) return message.bytes(wanted);
    }
    if (isCut) return null;
  }
}
