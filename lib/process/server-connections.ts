import type { IncomingMessage, RequestListener } from 'node:http';
import type { Server, Socket } from 'node:net';

export interface ConnectionLimits {
  /** The most open connections, those that are kept not counted; asked at each new one. */
  readonly most: () => number;
  /** The most of one source (sourceOf). */
  readonly mostOfSource: number;
  /**
   * Milliseconds: while more than half of `most` are open, connections end that old without a
   * request. Absent: they do not.
   */
  readonly patience?: number;
}

interface Connection {
  readonly socket: Socket;
  readonly end: string;
  readonly source: string;
  /** When it was opened, or sent its last request. */
  at: number;
  /** Whose it is, if it is kept. */
  owner: string | null;
}

/** The most connections of one owner that are kept. */
const MOST_KEPT = 16;

/**
 * Limits a server's open connections: accepts every connection, and when there are too many, closes
 * one of the source that has most, the one whose last request is longest ago. With
 * `maxConnections`, third parties that keep connections open would lock all other clients out.
 */
export class ConnectionLimit {
  readonly #limits: ConnectionLimits;
  /** By remote address and port; without those that are kept, ordered by last request. */
  readonly #open = new Map<string, Connection>();
  readonly #bySource = new Map<string, Set<Connection>>();
  readonly #keptOfOwner = new Map<string, number>();

  constructor(server: Pick<Server, 'on'>, limits: ConnectionLimits) {
    this.#limits = limits;
    server.on('connection', (socket: Socket) => this.#opened(socket));
    // With TLS the request's socket is not the object of the `connection` event.
    server.on('request', ({ socket }: IncomingMessage) => {
      const connection = this.#open.get(endOf(socket));
      if (connection === undefined) return;
      this.#remove(connection);
      this.#add(connection);
    });
  }

  /** The number of connections that are not kept. */
  get size(): number {
    return this.#open.size;
  }

  /**
   * Never closes this connection for another one, as long as it is open. Of one owner MOST_KEPT are
   * kept.
   */
  keep(socket: Socket, owner: string): void {
    const connection = this.#open.get(endOf(socket));
    const count = this.#keptOfOwner.get(owner) ?? 0;
    if (connection === undefined || count >= MOST_KEPT) return;
    this.#remove(connection);
    connection.owner = owner;
    this.#keptOfOwner.set(owner, count + 1);
  }

  #opened(socket: Socket): void {
    // The client has reset it already (getpeername: ENOTCONN): there is no address to count it by.
    if (socket.remoteAddress === undefined) return void socket.destroy();
    const connection = { socket, end: endOf(socket), source: sourceOf(socket), at: 0, owner: null };
    // A client may use a port again before the end of its last connection is known here.
    const last = this.#open.get(connection.end);
    if (last !== undefined) this.#remove(last);
    this.#add(connection);
    socket.once('close', () => this.#closed(connection));
    const { most, mostOfSource, patience } = this.#limits;
    const limit = most();
    if (patience !== undefined && this.#open.size > limit / 2) this.#endIdle(performance.now() - patience);
    const own = this.#bySource.get(connection.source);
    if (own !== undefined && own.size > mostOfSource) this.#end(own);
    if (this.#open.size > limit) this.#end(this.#largest());
  }

  #closed(connection: Connection): void {
    this.#remove(connection);
    const { owner } = connection;
    if (owner === null) return;
    const count = (this.#keptOfOwner.get(owner) ?? 1) - 1;
    if (count === 0) this.#keptOfOwner.delete(owner);
    else this.#keptOfOwner.set(owner, count);
  }

  #endIdle(before: number): void {
    for (const connection of this.#open.values()) {
      if (connection.at > before) return;
      this.#end([connection]);
    }
  }

  /** Closes the first one. */
  #end([first]: Iterable<Connection>): void {
    if (first === undefined) return;
    this.#remove(first);
    first.socket.destroy();
  }

  #largest(): Iterable<Connection> {
    let largest: ReadonlySet<Connection> = new Set();
    for (const connections of this.#bySource.values())
      if (connections.size > largest.size) largest = connections;
    return largest;
  }

  #add(connection: Connection): void {
    connection.at = performance.now();
    this.#open.set(connection.end, connection);
    const { source } = connection;
    this.#bySource.set(source, (this.#bySource.get(source) ?? new Set()).add(connection));
  }

  #remove(connection: Connection): void {
    if (this.#open.get(connection.end) !== connection) return;
    this.#open.delete(connection.end);
    const own = this.#bySource.get(connection.source);
    own?.delete(connection);
    if (own?.size === 0) this.#bySource.delete(connection.source);
  }
}

function endOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/**
 * The address by which a client is counted. Of an IPv6 address the network /64: one machine can use
 * all addresses of it.
 */
export function sourceOf({ remoteAddress = '' }: { readonly remoteAddress?: string | undefined }): string {
  const [text = ''] = remoteAddress.replace(/^::ffff:(?=\d+\.)/i, '').split('%');
  if (!text.includes(':')) return text;
  const [head = [], tail = []] = text
    .split('::')
    .map((part) => part.split(':').filter((group) => group !== ''));
  const zeros = Array.from({ length: Math.max(0, 8 - head.length - tail.length) }, () => '0');
  return `${[...head, ...zeros, ...tail].slice(0, 4).join(':')}::/64`;
}

/**
 * The in-flight limit of a connection. Clients of this server don't send a request before the
 * response to the previous one; but a client that disconnects with a request half sent may look
 * like it.
 */
const MOST = 4;

/**
 * Closes connections with more unanswered requests than that. Node reads any number of them
 * (pipelining, RFC 9112 section 9.3.2): one connection of a third party could queue requests until
 * the memory is full.
 */
export function limitInFlight(listener: RequestListener): RequestListener {
  const inFlight = new WeakMap<Socket, number>();
  return (request, response) => {
    const { socket } = request;
    const waiting = inFlight.get(socket) ?? 0;
    if (waiting >= MOST) {
      socket.destroy();
      return;
    }
    inFlight.set(socket, waiting + 1);
    response.once('close', () => inFlight.set(socket, (inFlight.get(socket) ?? 1) - 1));
    listener(request, response);
  };
}

/**
 * The open connections of a server, from before their TLS handshake on: of those
 * `closeAllConnections` of Node.js knows none, and `close` waits for each (handshakeTimeout), but
 * for none that was accepted elsewhere.
 */
export class OpenSockets {
  readonly #sockets = new Set<Socket>();
  #emptied: () => void = () => {};

  constructor(server: Pick<Server, 'on'>) {
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => {
        this.#sockets.delete(socket);
        if (this.#sockets.size === 0) this.#emptied();
      });
    });
  }

  /** Resolves when there are none. */
  closed(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#sockets.size === 0) resolve();
      else this.#emptied = resolve;
    });
  }

  destroy(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}
