import type { Server, Socket } from 'node:net';

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
