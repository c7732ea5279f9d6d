import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import type { NodeEgress } from '../../../apis/egress/node-egress.ts';
import { asFields, asList } from '../../../apis/schema/json-schema.ts';
import { parseAddress } from '../../../lib/net/address.ts';
import type { Log } from '../../../lib/process/log.ts';
import { CLAIM_PORT, linkLocal, TUNNEL } from '../render/tunnel.ts';

/** A pod's node tells a gateway which class an address has now. */
export interface Claim {
  readonly address: string;
  /** podKey. */
  readonly pod: string;
  /** Null: no pod of the node has the address any more. */
  readonly class: string | null;
}

/** Datagrams through the tunnel: claims, and which of them are in force. */
export type ClaimMessage =
  | { readonly kind: 'claims'; readonly claims: readonly Claim[] }
  | { readonly kind: 'inForce'; readonly claims: readonly Claim[] };

/** In one datagram, so that it fits into the tunnel. */
const MOST_CLAIMS = 6;
const LONGEST = 1024;

/** Null: it is none. */
function readClaimMessage(text: string): ClaimMessage | null {
  let raw: unknown;
  try {
    raw = JSON.parse(text);
  } catch {
    return null;
  }
  const { kind, claims } = asFields(raw) ?? {};
  const list = asList(claims);
  if ((kind !== 'claims' && kind !== 'inForce') || !list || list.length > MOST_CLAIMS) return null;
  const found = list.map(readClaim);
  return found.every((claim) => claim !== null) ? { kind, claims: found } : null;
}

function readClaim(raw: unknown): Claim | null {
  const { address, pod, class: id } = asFields(raw) ?? {};
  if (typeof address !== 'string' || parseAddress(address) === null) return null;
  if (typeof pod !== 'string' || pod.length > LONGEST) return null;
  if (id !== null && (typeof id !== 'string' || id.length > LONGEST)) return null;
  return { address, pod, class: id };
}

/** The node at the other end of the tunnel with this link-local address; null: none is known. */
export function peerAt({ peers }: Pick<NodeEgress, 'peers'>, address: string): string | null {
  for (const { node, mac } of peers.values()) if (linkLocal(mac) === address) return node;
  return null;
}

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
