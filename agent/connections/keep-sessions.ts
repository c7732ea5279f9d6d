import {
  type Conntrack,
  type NewConnection,
  type NftError,
  type OpenSocket,
  SOCKET_STATE,
  type SocketTable,
  TCP_CONNTRACK,
} from 'nftables-napi';

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

type SessionProtocol = NewConnection['protocol'];

const { established, synSent, synReceived, newSynReceived, close, listen } = SOCKET_STATE;
const { finWait1, finWait2, closeWait, lastAck, closing } = SOCKET_STATE;

/** Sockets that wait for others, by protocol: TCP that listens, UDP that is not connected. */
const WAITING: Readonly<Record<SessionProtocol, number>> = { 6: listen, 17: close };

/**
 * Sockets of sessions. One end of a TCP connection may still send when the other has finished;
 * TIME_WAIT has nothing left to send.
 */
const SESSION_STATES: Readonly<Record<SessionProtocol, number>> = {
  6:
    established |
    synReceived |
    newSynReceived |
    finWait1 |
    finWait2 |
    closeWait |
    lastAck |
    closing |
    synSent,
  17: established,
};

/** TCP only: the node asked, and has no answer yet. */
export const ASKED = synSent;

/**
 * Seconds: the kernel's own defaults. The first packet sets what the machine is configured with.
 */
const TIMEOUT = { tcp: 432_000, handshake: 120, ending: 120, udp: 180 };

/** The ends of sockets that wait for others. */
class WaitingSockets {
  readonly #addresses = new Map<string, Set<string>>();

  add(protocol: SessionProtocol, { local, localPort }: OpenSocket): void {
    const key = `${protocol} ${localPort}`;
    const there = this.#addresses.get(key) ?? new Set();
    this.#addresses.set(key, there.add(textOf(unmapped(local))));
  }

  /** Whether others can begin what has this local end. */
  has(protocol: SessionProtocol, local: Uint8Array, port: number): boolean {
    const there = this.#addresses.get(`${protocol} ${port}`);
    if (there === undefined) return false;
    return there.has(ANY[4]) || there.has(ANY[6]) || there.has(textOf(local));
  }
}

/**
 * The connection of a session's socket, in the direction in which it began: from the other end
 * where a socket of this machine waits at its local end, else from here.
 */
export function toConnection(
  protocol: SessionProtocol,
  socket: OpenSocket,
  waiting: WaitingSockets,
): NewConnection {
  const { state, localPort, remotePort } = socket;
  const local = unmapped(socket.local);
  const remote = unmapped(socket.remote);
  const isAsked =
    state === synReceived || state === newSynReceived || waiting.has(protocol, local, localPort);
  const ends = isAsked
    ? { source: remote, sourcePort: remotePort, destination: local, destinationPort: localPort }
    : { source: local, sourcePort: localPort, destination: remote, destinationPort: remotePort };
  return { protocol, ...ends, ...tracked(protocol, state) };
}

function tracked(
  protocol: SessionProtocol,
  state: number,
): Pick<NewConnection, 'tcpState' | 'isAnswered' | 'timeout'> {
  if (protocol === 17) return { tcpState: null, isAnswered: true, timeout: TIMEOUT.udp };
  switch (state) {
    case synSent:
      return { tcpState: TCP_CONNTRACK.synSent, isAnswered: false, timeout: TIMEOUT.handshake };
    case synReceived:
    case newSynReceived:
      return { tcpState: TCP_CONNTRACK.synReceived, isAnswered: true, timeout: TIMEOUT.handshake };
    case lastAck:
    case closing:
      return { tcpState: TCP_CONNTRACK.timeWait, isAnswered: true, timeout: TIMEOUT.ending };
    default:
      return { tcpState: TCP_CONNTRACK.established, isAnswered: true, timeout: TIMEOUT.tcp };
  }
}

const MAPPED = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255);

/** An IPv6 socket that speaks IPv4 has mapped addresses; its packets are IPv4. */
function unmapped(address: Uint8Array): Uint8Array {
  const isMapped = address.length === 16 && MAPPED.every((byte, i) => address[i] === byte);
  return isMapped ? address.subarray(MAPPED.length) : address;
}

const ANY = { 4: textOf(new Uint8Array(4)), 6: textOf(new Uint8Array(16)) };

function textOf(address: Uint8Array): string {
  return address.join('.');
}
