import { randomBytes } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { setTimeout as sleep } from 'node:timers/promises';
import { EchoSocket, NftError } from 'nftables-napi';
import { parseAddress } from '../../lib/net/address.ts';
import { packAddress } from '../../lib/net/member-set.ts';
import type { Outcome, Patience } from '../../lib/process/connection-attempt.ts';

/** Milliseconds between looks for the reply. */
const LOOK = 20;
/** Any port: the kernel only chooses the address of this end. */
const DISCARD = 9;

/**
 * Sends one echo request, in this turn of the event loop, and waits for its reply. By a datagram
 * socket where the kernel lets this process have one (net.ipv4.ping_group_range), else by a raw
 * one, which needs CAP_NET_RAW. Never rejects.
 */
export async function echoAttempt(text: string, { milliseconds }: Patience): Promise<Outcome> {
  const parsed = parseAddress(text);
  if (parsed === null) return { error: `${text} is not an address`, source: null };
  const [address, data] = [packAddress(parsed), randomBytes(16)];
  let socket: EchoSocket | null = null;
  let error: string | null = `no answer in ${milliseconds / 1000} s`;
  try {
    socket = openSocket(parsed.family, address);
    socket.request({ address, identifier: data.readUInt16BE(0), sequence: 1, data });
    const end = performance.now() + milliseconds;
    do {
      await sleep(LOOK);
      if (socket.replies().some((reply) => Buffer.compare(reply.data, data) === 0)) error = null;
    } while (error !== null && performance.now() < end);
  } catch (cause) {
    error = (cause as Error).message;
  } finally {
    socket?.close();
  }
  return { error, source: await ownAddress(text, parsed.family) };
}

function openSocket(family: 4 | 6, peer: Uint8Array): EchoSocket {
  try {
    return new EchoSocket(family, { peer, isDatagram: true });
  } catch (error) {
    if (!(error instanceof NftError) || !REFUSED.includes(error.code)) throw error;
    return new EchoSocket(family, { peer });
  }
}

/** Not allowed to this group, or not built into the kernel. */
const REFUSED: readonly unknown[] = ['EACCES', 'EPERM', 'EPROTONOSUPPORT'];

/** The address from which the kernel sends to another; null: there is no way. */
async function ownAddress(text: string, family: 4 | 6): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>();
  const socket = createSocket(family === 4 ? 'udp4' : 'udp6');
  socket.once('error', () => resolve(null));
  socket.connect(DISCARD, text, () => resolve(socket.address().address));
  return await promise.finally(() => socket.close());
}
