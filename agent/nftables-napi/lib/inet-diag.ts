import { IS_LITTLE_ENDIAN, type NetlinkMessage, toMessage } from './netlink-message.ts';

/** NETLINK_SOCK_DIAG of linux/netlink.h. */
export const SOCK_DIAG = 4;
/** linux/sock_diag.h. */
export const SOCK_DIAG_BY_FAMILY = 20;
export const SOCK_DESTROY = 21;
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
export interface SocketEnds {
  /** 4 or 16 bytes. */
  readonly local: Uint8Array;
  readonly localPort: number;
  readonly remote: Uint8Array;
  readonly remotePort: number;
}

/** A socket in an answer. Its bytes share memory with the answer: copy them to keep them. */
export interface DiagSocket extends SocketEnds {
  /** TCP_* of include/net/tcp_states.h, of UDP too. */
  readonly state: number;
  /** The kernel's own name of the socket, 8 bytes. */
  readonly cookie: Uint8Array;
}

/** Asks for one socket, by its ends and its cookie. */
export function socketRequest(
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
 * Asks for all sockets of a family.
 * @param states a bit for each state, 1 << TCP_*
 */
export function socketsRequest(family: 4 | 6, protocol: number, flags: number, states: number): Uint8Array {
  const bytes = new Uint8Array(REQUEST);
  fill(bytes, family, protocol, states);
  return toMessage(SOCK_DIAG_BY_FAMILY, flags, [bytes]);
}

function fill(bytes: Uint8Array, family: 4 | 6, protocol: number, states: number): void {
  bytes[0] = FAMILIES[family];
  bytes[1] = protocol;
  new DataView(bytes.buffer).setUint32(STATES, states, IS_LITTLE_ENDIAN);
}

/** Null if the message is not about a socket. */
export function toDiagSocket({ type, view, start, end }: NetlinkMessage): DiagSocket | null {
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
