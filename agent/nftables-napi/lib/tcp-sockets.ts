import { type Binding, loadBinding } from './binding.ts';
import type { NftError } from './errors.ts';
import { IS_LITTLE_ENDIAN, NLM_F_REQUEST, toMessage } from './netlink-message.ts';
import { type RawAnswer, RawSocket } from './raw-socket.ts';

/** The ends of a connected TCP socket, as the socket has them. */
export interface TcpSocketName {
  /** 4 or 16 bytes. */
  readonly local: Uint8Array;
  readonly localPort: number;
  readonly remote: Uint8Array;
  readonly remotePort: number;
}

/** NETLINK_SOCK_DIAG of linux/netlink.h. */
const SOCK_DIAG = 4;
/** linux/sock_diag.h. */
const SOCK_DIAG_BY_FAMILY = 20;
const SOCK_DESTROY = 21;
const IPPROTO_TCP = 6;
/** include/net/tcp_states.h: a socket that waits for connections. */
const LISTEN = 10;
/**
 * struct inet_diag_req_v2: family, protocol, extensions, padding, states; then inet_diag_sockid.
 */
const REQUEST = 56;
const NAME_IN_REQUEST = 8;
/** struct inet_diag_msg: family, state, timer, retransmissions; then inet_diag_sockid. */
const NAME_IN_ANSWER = 4;
/** In struct inet_diag_sockid. */
const REMOTE_PORT = 2;
const LOCAL = 4;
const REMOTE = 20;
const COOKIE = 40;
const NAME = 48;
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

function request(type: number, name: TcpSocketName, cookie: Uint8Array): Uint8Array {
  const { local, localPort, remote, remotePort } = name;
  const bytes = new Uint8Array(REQUEST);
  const view = new DataView(bytes.buffer);
  bytes[0] = local.length === 4 ? 2 : 10;
  bytes[1] = IPPROTO_TCP;
  view.setUint32(4, 0xffff_ffff, IS_LITTLE_ENDIAN);
  view.setUint16(NAME_IN_REQUEST, localPort);
  view.setUint16(NAME_IN_REQUEST + REMOTE_PORT, remotePort);
  bytes.set(local, NAME_IN_REQUEST + LOCAL);
  bytes.set(remote, NAME_IN_REQUEST + REMOTE);
  bytes.set(cookie, NAME_IN_REQUEST + COOKIE);
  return toMessage(type, NLM_F_REQUEST, [bytes]);
}

/** Null if the socket is not the connected one of this name. */
function cookieOf(
  answer: RawAnswer | undefined,
  { localPort, remotePort }: TcpSocketName,
): Uint8Array | null {
  const message = answer?.messages[0];
  if (message === undefined || message.end - message.start < NAME_IN_ANSWER + NAME) return null;
  const { view, start } = message;
  const name = start + NAME_IN_ANSWER;
  const isSame = view.getUint16(name) === localPort && view.getUint16(name + REMOTE_PORT) === remotePort;
  if (!isSame || view.getUint8(start + 1) === LISTEN) return null;
  return new Uint8Array(view.buffer, view.byteOffset + name + COOKIE, ANY_COOKIE.length);
}
