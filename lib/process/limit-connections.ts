import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Limits a server's open connections to `most`: accepts every connection, and closes the one whose
 * last request is longest ago when there are more. With `maxConnections`, third parties that keep
 * connections open would lock all other clients out.
 */
export function limitConnections(server: Pick<Server, 'on'>, most: number): void {
  /** Sockets by remote address and port, ordered by last request, the oldest first. */
  const open = new Map<string, Socket>();
  server.on('connection', (socket: Socket) => {
    const end = endOf(socket);
    open.set(end, socket);
    socket.once('close', () => open.delete(end));
    const [longest] = open.values();
    if (open.size > most) longest?.destroy();
  });
  // With TLS the request's socket is not the object of the `connection` event.
  server.on('request', ({ socket }: IncomingMessage) => {
    const end = endOf(socket);
    const connection = open.get(end);
    if (connection === undefined) return;
    open.delete(end);
    open.set(end, connection);
  });
}

function endOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
