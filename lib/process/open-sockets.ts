import type { Server, Socket } from 'node:net';

/**
 * The open connections of a server, from before their TLS handshake on: of those
 * `closeAllConnections` of Node.js knows none, and `close` waits for each (handshakeTimeout).
 */
export class OpenSockets {
  readonly #sockets = new Set<Socket>();

  constructor(server: Pick<Server, 'on'>) {
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  destroy(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}
