import type { NftError } from './errors.ts';
import {
  IS_LITTLE_ENDIAN,
  type NetlinkMessage,
  NLM_F_DUMP,
  NLM_F_REQUEST,
  netlinkMessages,
  toMessage,
} from './netlink-message.ts';
import { type RawAnswer, RawSocket } from './raw-socket.ts';

/** NETLINK_SOCK_DIAG of linux/netlink.h. */
const SOCK_DIAG = 4;
/** linux/sock_diag.h. */
const SOCK_DIAG_BY_FAMILY = 20;
const SOCK_DESTROY = 21;
/**
 * struct inet_diag_req_v2: family, protocol, extensions, padding, states; then inet_diag_sockid.
 */
const REQUEST = 56;
const STATES = 4;
const NAME_IN_REQUEST = 8;
/** struct inet_diag_msg: family, state, timer, retransmissions; then inet_diag_sockid. */
const STATE_IN_ANSWER = 1;
const NAME_IN_ANSWER = 4;
/** In struct inet_diag_sockid. */
const REMOTE_PORT = 2;
const LOCAL = 4;
const REMOTE = 20;
const COOKIE = 40;
const NAME = 48;
const FAMILIES = { 4: 2, 6: 10 } as const;
const ALL_STATES = 0xffff_ffff;

/** The ends of a socket, as the socket has them. */
interface SocketEnds {
  /** 4 or 16 bytes. */
  readonly local: Uint8Array;
  readonly localPort: number;
  readonly remote: Uint8Array;
  readonly remotePort: number;
}

/** A socket in an answer. Its bytes share memory with the answer: copy them to keep them. */
interface DiagSocket extends SocketEnds {
  /** TCP_* of include/net/tcp_states.h, of UDP too. */
  readonly state: number;
  /** The kernel's own name of the socket, 8 bytes. */
  readonly cookie: Uint8Array;
}

/** Asks for one socket, by its ends and its cookie. */
function socketRequest(
  type: number,
  protocol: number,
  flags: number,
  { local, localPort, remote, remotePort, cookie }: Omit<DiagSocket, 'state'>,
): Uint8Array {
  const bytes = new Uint8Array(REQUEST);
  fill(bytes, local.length === 4 ? 4 : 6, protocol, ALL_STATES);
  const view = new DataView(bytes.buffer);
  view.setUint16(NAME_IN_REQUEST, localPort);
  view.setUint16(NAME_IN_REQUEST + REMOTE_PORT, remotePort);
  bytes.set(local, NAME_IN_REQUEST + LOCAL);
  bytes.set(remote, NAME_IN_REQUEST + REMOTE);
  bytes.set(cookie, NAME_IN_REQUEST + COOKIE);
  return toMessage(type, flags, [bytes]);
}

/**
 * Asks for the sockets of a family.
 */
function socketsRequest(
  { family, protocol, states, localPort = 0, remotePort = 0 }: SocketQuery,
  flags: number,
): Uint8Array {
  const bytes = new Uint8Array(REQUEST);
  fill(bytes, family, protocol, states);
  const view = new DataView(bytes.buffer);
  view.setUint16(NAME_IN_REQUEST, localPort);
  view.setUint16(NAME_IN_REQUEST + REMOTE_PORT, remotePort);
  return toMessage(SOCK_DIAG_BY_FAMILY, flags, [bytes]);
}

function fill(bytes: Uint8Array, family: 4 | 6, protocol: number, states: number): void {
  bytes[0] = FAMILIES[family];
  bytes[1] = protocol;
  new DataView(bytes.buffer).setUint32(STATES, states, IS_LITTLE_ENDIAN);
}

/** Null if the message is not about a socket. */
function toDiagSocket({ type, view, start, end }: NetlinkMessage): DiagSocket | null {
  if (type !== SOCK_DIAG_BY_FAMILY || end - start < NAME_IN_ANSWER + NAME) return null;
  const name = start + NAME_IN_ANSWER;
  const width = view.getUint8(start) === FAMILIES[4] ? 4 : 16;
  const bytes = (offset: number, length: number): Uint8Array =>
    new Uint8Array(view.buffer, view.byteOffset + name + offset, length);
  return {
    state: view.getUint8(start + STATE_IN_ANSWER),
    local: bytes(LOCAL, width),
    localPort: view.getUint16(name),
    remote: bytes(REMOTE, width),
    remotePort: view.getUint16(name + REMOTE_PORT),
    cookie: bytes(COOKIE, NAME - COOKIE),
  };
}

/**
 * States of a socket as the bits of SocketQuery.states: 1 << TCP_* of include/net/tcp_states.h.
 */
export const SOCKET_STATE = {
  established: 1 << 1,
  synSent: 1 << 2,
  synReceived: 1 << 3,
  finWait1: 1 << 4,
  finWait2: 1 << 5,
  /** UDP: not connected. */
  close: 1 << 7,
  closeWait: 1 << 8,
  lastAck: 1 << 9,
  listen: 1 << 10,
  closing: 1 << 11,
  /** A request for a connection, which the kernel reports as `synReceived`. */
  newSynReceived: 1 << 12,
} as const;

export interface OpenSocket extends Omit<DiagSocket, 'state'> {
  /** One of SOCKET_STATE. */
  readonly state: number;
}

export interface SocketQuery {
  readonly family: 4 | 6;
  /** IPPROTO_TCP or IPPROTO_UDP. */
  readonly protocol: 6 | 17;
  /** The sum of SOCKET_STATEs. */
  readonly states: number;
  /** TCP: those with this port alone. Absent: any. */
  readonly localPort?: number;
  readonly remotePort?: number;
}

/**
 * The TCP and UDP sockets of the network namespace in which this object is created (sock_diag),
 * whoever owns them. Needs no capability; without the kernel's tcp_diag or udp_diag `sockets`
 * throws ENOENT.
 */
export class SocketTable {
  /**
   * The sockets of a family in these states, in chunks, each read while the caller asks for it. An
   * IPv6 socket that speaks IPv4 is one of family 6 with mapped addresses. A socket that is made or
   * ends meanwhile may be missing.
   */
  async *sockets(query: SocketQuery): AsyncGenerator<OpenSocket[], void, undefined> {
    const socket = new RawSocket(SOCK_DIAG, 'SocketTable');
    const request = socketsRequest(query, NLM_F_REQUEST | NLM_F_DUMP);
    try {
      for await (const chunk of socket.dump(request)) {
        yield [...netlinkMessages(chunk)].flatMap((message) => {
          const found = toDiagSocket(message);
          return found === null ? [] : [{ ...found, state: 1 << found.state }];
        });
      }
    } finally {
      await socket.close();
    }
  }
}

/** The ends of a connected TCP socket, as the socket has them. */
export type TcpSocketName = SocketEnds;

const IPPROTO_TCP = 6;
/** include/net/tcp_states.h: a socket that waits for connections. */
const LISTEN = 10;
/** INET_DIAG_NOCOOKIE. */
const ANY_COOKIE = new Uint8Array(8).fill(255);
const MOST = 256;

/**
 * Ends TCP connections of this network namespace at their sockets (sock_diag). Needs CAP_NET_ADMIN
 * (else EPERM) and CONFIG_INET_DIAG_DESTROY (else EOPNOTSUPP). The constructor throws an NftError
 * if the socket cannot be opened.
 */
export class TcpSockets {
  readonly #socket = new RawSocket(SOCK_DIAG, 'TcpSockets');

  /**
   * Resets connections: the other end gets a reset, the program ECONNABORTED. One result per
   * connection: null for success, and where only a listening socket has this local end; ENOENT if
   * there is no such socket here.
   */
  async destroy(names: readonly TcpSocketName[]): Promise<(NftError | null)[]> {
    const results: (NftError | null)[] = [];
    for (let i = 0; i < names.length; i += MOST)
      results.push(...(await this.#destroy(names.slice(i, i + MOST))));
    return results;
  }

  /** Waits for pending calls, then closes the socket. Idempotent. */
  close(): Promise<void> {
    return this.#socket.close();
  }

  /**
   * The kernel finds a listening socket where there is no connected one. So it is asked first, and
   * the socket of the answer is named by its cookie.
   */
  async #destroy(names: readonly TcpSocketName[]): Promise<(NftError | null)[]> {
    const what = (): string => 'TCP socket';
    const found = await this.#socket.exchange(
      names.map((name) => request(SOCK_DIAG_BY_FAMILY, name, ANY_COOKIE)),
      what,
    );
    const cookies = names.map((name, i) => cookieOf(found[i], name));
    const wanted = names.flatMap((name, i) => {
      const cookie = cookies[i];
      return cookie ? [request(SOCK_DESTROY, name, cookie)] : [];
    });
    const answers = (await this.#socket.exchange(wanted, what)).values();
    return names.map((_, i) => {
      const cookie = cookies[i] ?? null;
      return cookie === null ? (found[i]?.error ?? null) : (answers.next().value?.error ?? null);
    });
  }
}

function request(type: number, { local, localPort, remote, remotePort }: TcpSocketName, cookie: Uint8Array) {
  return socketRequest(type, IPPROTO_TCP, NLM_F_REQUEST, { local, localPort, remote, remotePort, cookie });
}

/** Null if the socket is not the connected one of this name. */
function cookieOf(
  answer: RawAnswer | undefined,
  { localPort, remotePort }: TcpSocketName,
): Uint8Array | null {
  const message = answer?.messages[0];
  const socket = message === undefined ? null : toDiagSocket(message);
  if (socket === null || socket.state === LISTEN) return null;
  const isSame = socket.localPort === localPort && socket.remotePort === remotePort;
  return isSame ? socket.cookie : null;
}
