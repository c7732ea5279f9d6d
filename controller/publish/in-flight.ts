import type { RequestListener } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Nobody who asks here sends a request before the answer to the one before; a client that goes away
 * with one half sent may look like it.
 */
const MOST = 4;

/**
 * Ends connections with more requests than that unanswered. Node reads on however many there are
 * (pipelining, RFC 9112 section 9.3.2): one connection of one stranger could have any number of
 * them wait, and the memory full.
 */
export function fewInFlight(listener: RequestListener): RequestListener {
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
