import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/**
 * Below the ports that Linux draws for outgoing connections: none takes one before its server does.
 */
const FIRST = 20_000;
/** Each of mocha's worker processes has a share, so that none is given another's. */
const SHARE = 2_000;
const SHARES = 6;

/** TCP ports of 127.0.0.1 that nobody listens on now. */
export async function freePorts(count: number): Promise<number[]> {
  const share = Number(process.env.MOCHA_WORKER_ID ?? SHARES - 1) % SHARES;
  const start = Math.floor(Math.random() * SHARE);
  const servers = new Map<number, Server>();
  for (let i = 0; servers.size < count; i++) {
    if (i === SHARE) throw new Error(`all ports from ${FIRST + share * SHARE} on are in use`);
    const port = FIRST + share * SHARE + ((start + i) % SHARE);
    const server = createServer().listen(port, '127.0.0.1');
    try {
      await once(server, 'listening');
      servers.set(port, server);
    } catch {
      // Somebody listens there.
    }
  }
  await Promise.all([...servers.values()].map((server) => once(server.close(), 'close')));
  return [...servers.keys()];
}
