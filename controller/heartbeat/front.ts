import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { ListenAddress } from '../../lib/process/option-value.ts';
import { ConnectionLimit } from '../../lib/process/server-connections.ts';
import { present } from '../../lib/sharing/present.ts';
import { BACKLOG, SERVER_LIMITS } from '../publish/server-limits.ts';
import { offersProtocol } from './client-hello.ts';

export interface FrontOptions {
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
