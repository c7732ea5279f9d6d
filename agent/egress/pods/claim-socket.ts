import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import type { Log } from '../../../lib/process/log.ts';
import { CLAIM_PORT, TUNNEL } from '../render/tunnel.ts';
import { type Claim, type ClaimMessage, MOST_CLAIMS, readClaimMessage } from './claim.ts';

/** Called with the link-local address that a datagram came from. */
export type ReceiveClaims = (from: string, message: ClaimMessage) => void;

export type ClaimPort = Pick<ClaimSocket, 'send' | 'close'>;

/** Datagrams between the agents of pods' nodes and of gateways, through the tunnel only. */
export class ClaimSocket {
  readonly #socket: Socket;

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** @returns null if the socket cannot be opened, which is logged */
  static async open(log: Log, received: ReceiveClaims): Promise<ClaimSocket | null> {
    const socket = createSocket({ type: 'udp6', ipv6Only: true });
    try {
      // Not to the tunnel's address: the device may be made anew at any time.
      socket.bind(CLAIM_PORT, '::');
      await once(socket, 'listening');
    } catch (error) {
      log.error('cannot talk to egress gateways; pods are steered when the controller has their addresses', {
        error: (error as Error).message,
      });
      return null;
    }
    socket.on('error', (error) => log.warn('egress gateways: a datagram failed', { error: error.message }));
    socket.on('message', (bytes, { address }) => {
      const [from = '', device] = address.split('%');
      if (device !== TUNNEL.link || !from.startsWith('fe80:')) return;
      const message = readClaimMessage(bytes.toString('utf8'));
      if (message !== null) received(from, message);
    });
    return new ClaimSocket(socket);
  }

  /** Datagrams get lost: callers send again until they are answered. */
  send(to: string, kind: ClaimMessage['kind'], claims: readonly Claim[]): void {
    for (let i = 0; i < claims.length; i += MOST_CLAIMS) {
      const message: ClaimMessage = { kind, claims: claims.slice(i, i + MOST_CLAIMS) };
      // Without the device there is nobody to send to; that it is missing is logged elsewhere.
      this.#socket.send(JSON.stringify(message), CLAIM_PORT, `${to}%${TUNNEL.link}`, () => {});
    }
  }

  close(): Promise<void> {
    return new Promise((resolve) => this.#socket.close(() => resolve()));
  }
}
