import { type Binding, loadBinding } from './binding.ts';
import { type DiagSocket, SOCK_DIAG, socketsRequest, toDiagSocket } from './inet-diag.ts';
import { NLM_F_DUMP, NLM_F_REQUEST, netlinkMessages } from './netlink-message.ts';
import { RawSocket } from './raw-socket.ts';

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
}

/**
 * The TCP and UDP sockets of the network namespace in which this object is created (sock_diag),
 * whoever owns them. Needs no capability; without the kernel's tcp_diag or udp_diag `sockets`
 * throws ENOENT.
 */
export class SocketTable {
  readonly #binding: Binding;

  /** `binding` is for tests only. */
  constructor(binding: Binding = loadBinding()) {
    this.#binding = binding;
  }

  /**
   * The sockets of a family in these states, in chunks, each read while the caller asks for it. An
   * IPv6 socket that speaks IPv4 is one of family 6 with mapped addresses. A socket that is made or
   * ends meanwhile may be missing.
   */
  async *sockets({ family, protocol, states }: SocketQuery): AsyncGenerator<OpenSocket[], void, undefined> {
    const socket = new RawSocket(SOCK_DIAG, 'SocketTable', this.#binding);
    const request = socketsRequest(family, protocol, NLM_F_REQUEST | NLM_F_DUMP, states);
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
