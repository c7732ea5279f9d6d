import type { RequestListener } from 'node:http';
import type { Socket } from 'node:net';

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
