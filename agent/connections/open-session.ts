import { type NewConnection, type OpenSocket, SOCKET_STATE, TCP_CONNTRACK } from 'nftables-napi';

export type SessionProtocol = NewConnection['protocol'];

const { established, synSent, synReceived, newSynReceived, close, listen } = SOCKET_STATE;
const { finWait1, finWait2, closeWait, lastAck, closing } = SOCKET_STATE;

/** Sockets that wait for others, by protocol: TCP that listens, UDP that is not connected. */
export const WAITING: Readonly<Record<SessionProtocol, number>> = { 6: listen, 17: close };

/**
 * Sockets of sessions. One end of a TCP connection may still send when the other has finished;
 * TIME_WAIT has nothing left to send.
 */
export const SESSION_STATES: Readonly<Record<SessionProtocol, number>> = {
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
export class WaitingSockets {
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
