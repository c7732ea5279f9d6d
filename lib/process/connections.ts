import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Lets in everybody who knocks, and ends the connection that has asked nothing for longest where
 * there are more than so many. With `maxConnections` strangers who hold connections open would lock
 * everybody else out.
 */
export function newestConnections(server: Pick<Server, 'on'>, most: number): void {
  /** By the other end, the one that has asked nothing for longest first. */
  const open = new Map<string, Socket>();
  server.on('connection', (socket: Socket) => {
    const end = endOf(socket);
    open.set(end, socket);
    socket.once('close', () => open.delete(end));
    const [longest] = open.values();
    if (open.size > most) longest?.destroy();
  });
  // Behind TLS the request's socket is another object than the connection's.
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
