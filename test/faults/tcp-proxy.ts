import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { type Random, seededRandom } from '../../perf/generate/random.ts';
import { type ByteFaults, CUTS, type Cut, counter, type FaultyProxy, type ListenOptions } from './faults.ts';

export interface TcpProxyOptions extends ListenOptions {
  readonly targetHost: string;
  readonly targetPort: number;
  readonly faults?: ByteFaults;
}

/** Both ends of what goes through the proxy as one connection. */
interface Pair {
  readonly sockets: readonly [Socket, Socket];
  /** Bytes left until it is cut. */
  left: number;
  state: 'open' | 'silent' | 'ended';
}

/**
 * A TCP proxy that knows nothing of what it carries, TLS included. To be seen as the server, its
 * address must be one that the server's certificate names.
 */
export async function tcpProxy(options: TcpProxyOptions): Promise<FaultyProxy<ByteFaults>> {
  const random = seededRandom(options.seed);
  const { add, counts } = counter();
  const pairs = new Set<Pair>();
  let faults = options.faults ?? {};

  const cut = (pair: Pair, how: Cut): void => {
    add(`cut by ${how}`);
    pair.state = how === 'silence' ? 'silent' : 'ended';
    if (how !== 'silence')
      for (const socket of pair.sockets) how === 'reset' ? socket.resetAndDestroy() : socket.destroySoon();
  };
  const carry = async (pair: Pair, from: Socket, to: Socket): Promise<void> => {
    // An end that has said all may still listen: iterating must not destroy it.
    for await (const piece of from.iterator({ destroyOnReturn: false })) {
      if (faults.delay !== undefined) await pause(between(random, faults.delay));
      if (pair.state === 'silent') continue;
      if (pair.state === 'ended') return;
      pair.left -= piece.length;
      if (pair.left <= 0) {
        const how = random.pick(faults.cuts ?? CUTS);
        if (how === 'end') to.write(piece.subarray(0, piece.length >> 1));
        cut(pair, how);
        if (how !== 'silence') return;
      } else if (!to.write(piece) && !to.destroyed) {
        await Promise.race([once(to, 'drain'), once(to, 'close')]);
      }
    }
    if (pair.state !== 'silent') to.end();
  };

  const server = createServer({ allowHalfOpen: true }, (client) => {
    add('connections');
    if (random.next() < (faults.refuse ?? 0)) {
      add('refused');
      client.resetAndDestroy();
      return;
    }
    const { targetHost: host, targetPort: port } = options;
    const target = connect({ host, port, allowHalfOpen: true, noDelay: true });
    client.setNoDelay();
    const pair: Pair = { sockets: [client, target], left: bytesUntilCut(random, faults), state: 'open' };
    pairs.add(pair);
    for (const [socket, other] of [
      [client, target],
      [target, client],
    ] as const) {
      // carry sees it too.
      socket.on('error', () => {});
      socket.once('close', () => other.destroyed && pairs.delete(pair));
      carry(pair, socket, other).catch(() => other.destroy());
    }
  });
  server.listen(options.port ?? 0, options.host ?? '127.0.0.1');
  await once(server, 'listening');

  return {
    port: (server.address() as AddressInfo).port,
    async set(next) {
      faults = next;
      for (const pair of pairs) pair.left = bytesUntilCut(random, faults);
    },
    async cutAll(how) {
      for (const pair of pairs) if (pair.state === 'open') cut(pair, how);
    },
    counts: async () => counts(),
    async close() {
      const closed = once(server.close(), 'close');
      for (const pair of pairs) for (const socket of pair.sockets) socket.destroy();
      await closed;
    },
  };
}

/** A number at random, least ≤ x < most. */
export function between(random: Random, [least, most]: readonly [number, number]): number {
  return least + random.next() * (most - least);
}

function bytesUntilCut(random: Random, { cutAfter }: ByteFaults): number {
  return cutAfter === undefined ? Number.POSITIVE_INFINITY : -Math.log(1 - random.next()) * cutAfter;
}
