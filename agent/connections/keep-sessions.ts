import type { Conntrack, NftError, SocketTable } from 'nftables-napi';
import {
  ASKED,
  SESSION_STATES,
  type SessionProtocol,
  toConnection,
  WAITING,
  WaitingSockets,
} from './open-session.ts';

export interface KeepOptions {
  readonly sockets: Pick<SocketTable, 'sockets'>;
  readonly conntrack: Pick<Conntrack, 'add'>;
  /** Makes the kernel track connections from now on. Nothing is judged yet. */
  readonly track: () => Promise<unknown>;
}

export interface KeptSessions {
  /** Sessions that are tracked from now on, or were. */
  kept: number;
  /** Sessions that the kernel refused to track: rules judge their next packets. */
  failed: number;
  /** The first refusal; null: none. */
  error: NftError | null;
}

const PROTOCOLS: readonly SessionProtocol[] = [6, 17];
const FAMILIES = [4, 6] as const;

/**
 * Has the kernel track the sessions of this machine's sockets (TCP, connected UDP) that began
 * before it tracked any: else rules would take the next packet of each for that of a new
 * connection.
 *
 * The first pass is made before the kernel tracks anything, so that it finds no session in the
 * middle, and takes the direction of some packet for that in which the session began. The second
 * finds those that began meanwhile; what begins later is tracked from its first packet. Throws if
 * the sockets cannot be read.
 */
export async function keepSessions({ sockets, conntrack, track }: KeepOptions): Promise<KeptSessions> {
  const summary: KeptSessions = { kept: 0, failed: 0, error: null };
  const seen = new Set<string>();
  for (const isTracking of [false, true]) {
    if (isTracking) await track();
    for (const protocol of PROTOCOLS) {
      const waiting = await waitingSockets(sockets, protocol);
      // The answer to a node that asked may come before the kernel tracks anything.
      const states = isTracking ? SESSION_STATES[protocol] : SESSION_STATES[protocol] & ~ASKED;
      for (const family of FAMILIES) {
        for await (const chunk of sockets.sockets({ family, protocol, states })) {
          const fresh = chunk.filter(({ cookie, state }) => {
            const key = `${cookie.join('.')} ${state}`;
            return !seen.has(key) && seen.add(key);
          });
          const results = await conntrack.add(fresh.map((socket) => toConnection(protocol, socket, waiting)));
          for (const error of results) {
            if (error === null) summary.kept++;
            else summary.failed++;
            summary.error ??= error;
          }
        }
      }
    }
  }
  return summary;
}

async function waitingSockets(
  sockets: KeepOptions['sockets'],
  protocol: SessionProtocol,
): Promise<WaitingSockets> {
  const waiting = new WaitingSockets();
  for (const family of FAMILIES) {
    for await (const chunk of sockets.sockets({ family, protocol, states: WAITING[protocol] }))
      for (const socket of chunk) waiting.add(protocol, socket);
  }
  return waiting;
}
