import { type Binding, loadBinding } from './binding.ts';
import type { NftError } from './errors.ts';
import {
  SOCK_DESTROY,
  SOCK_DIAG,
  SOCK_DIAG_BY_FAMILY,
  type SocketEnds,
  socketRequest,
  toDiagSocket,
} from './inet-diag.ts';
import { NLM_F_REQUEST } from './netlink-message.ts';
import { type RawAnswer, RawSocket } from './raw-socket.ts';

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
  readonly #socket: RawSocket;

  /** `binding` is for tests only. */
  constructor(binding: Binding = loadBinding()) {
    this.#socket = new RawSocket(SOCK_DIAG, 'TcpSockets', binding);
  }

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
