import {
  attribute,
  IS_LITTLE_ENDIAN,
  type NetlinkMessage,
  NLM_F_DUMP,
  NLM_F_REQUEST,
  nest,
  textBytes,
  toMessage,
  u16,
  u32,
} from './netlink-message.ts';
import { type AddressBytes, AF, NO_BYTES, RouteMessage } from './rtnetlink/object.ts';

/** WG_GENL_NAME of linux/wireguard.h. */
export const WIREGUARD_FAMILY = 'wireguard';
/** Bytes of a public or private key (WG_KEY_LEN). */
const KEY_LENGTH = 32;

const VERSION = 1;
const COMMAND = { get: 0, set: 1 } as const;
/** enum wgdevice_attribute. */
const DEVICE = { index: 1, privateKey: 3, publicKey: 4, flags: 5, port: 6, mark: 7, peers: 8 } as const;
const REPLACE_PEERS = 1;
/** enum wgpeer_attribute. */
const PEER = { publicKey: 1, flags: 3, endpoint: 4, allowed: 9 } as const;
const PEER_FLAGS = { remove: 1, replaceAllowed: 2 } as const;
/** enum wgallowedip_attribute. */
const ALLOWED = { family: 1, address: 2, length: 3 } as const;
/** struct sockaddr_in, and sockaddr_in6 with the flow label before and the scope behind. */
const SOCKADDR = { 4: { size: 16, address: 4 }, 6: { size: 28, address: 8 } } as const;

/** Addresses that a peer may send with, and is sent to. */
export interface WireGuardAddress {
  readonly address: AddressBytes;
  readonly prefixLength: number;
}

export interface WireGuardPeer {
  /** 32 bytes. */
  readonly publicKey: Uint8Array;
  /** Empty: not known. */
  readonly endpoint: AddressBytes;
  /** UDP port of the endpoint. */
  readonly port: number;
  readonly allowed: readonly WireGuardAddress[];
}

/** A device as the kernel has it. The private key is left out on purpose: nobody reads it back. */
export interface WireGuardDevice {
  /** 32 bytes; empty: it has no private key yet. */
  readonly publicKey: Uint8Array;
  /** UDP port on which it listens. */
  readonly port: number;
  /** Mark of its outer packets; 0: none. */
  readonly mark: number;
  readonly peers: readonly WireGuardPeer[];
}

/** Sets the device itself. With `replacePeers` it then has no peers. */
export function deviceRequest(
  family: number,
  index: number,
  it: Pick<WireGuardDevice, 'port' | 'mark'> & { readonly privateKey: Uint8Array },
  replacePeers: boolean,
): Uint8Array {
  return genericMessage(family, COMMAND.set, VERSION, 0, [
    attribute(DEVICE.index, u32(index)),
    attribute(DEVICE.privateKey, key(it.privateKey)),
    attribute(DEVICE.port, u16(it.port)),
    attribute(DEVICE.mark, u32(it.mark)),
    ...(replacePeers ? [attribute(DEVICE.flags, u32(REPLACE_PEERS))] : []),
  ]);
}

/** Makes these peers, or gives those with these keys this endpoint and exactly these addresses. */
export function peersRequest(family: number, index: number, peers: readonly WireGuardPeer[]): Uint8Array {
  return changePeers(
    family,
    index,
    peers.map(({ publicKey, endpoint, port, allowed }) => [
      attribute(PEER.publicKey, key(publicKey)),
      attribute(PEER.flags, u32(PEER_FLAGS.replaceAllowed)),
      ...(endpoint.length > 0 ? [attribute(PEER.endpoint, toSockaddr(endpoint, port))] : []),
      nest(PEER.allowed, allowed.map(toAllowed)),
    ]),
  );
}

/** Removes the peers with these keys; those that are not there are no error. */
export function removalRequest(family: number, index: number, keys: readonly Uint8Array[]): Uint8Array {
  return changePeers(
    family,
    index,
    keys.map((publicKey) => [
      attribute(PEER.publicKey, key(publicKey)),
      attribute(PEER.flags, u32(PEER_FLAGS.remove)),
    ]),
  );
}

function changePeers(family: number, index: number, peers: readonly (readonly Uint8Array[])[]): Uint8Array {
  return genericMessage(family, COMMAND.set, VERSION, 0, [
    attribute(DEVICE.index, u32(index)),
    nest(
      DEVICE.peers,
      peers.map((attributes) => nest(0, attributes)),
    ),
  ]);
}

/** Asks for the device with this index: EOPNOTSUPP for a link of another kind, ENODEV for none. */
export function deviceDump(family: number, index: number): Uint8Array {
  return genericMessage(family, COMMAND.get, VERSION, NLM_F_DUMP, [attribute(DEVICE.index, u32(index))]);
}

/**
 * One device from the messages of its dump. A peer that did not fit into one message goes on in the
 * next one, with its key and further addresses. Null if there is no message.
 */
export function toDevice(messages: Iterable<NetlinkMessage>): WireGuardDevice | null {
  let device: Omit<WireGuardDevice, 'peers'> | null = null;
  const peers: (Omit<WireGuardPeer, 'allowed'> & { readonly allowed: WireGuardAddress[] })[] = [];
  for (const message of messages) {
    const it = RouteMessage.of(message, GENLMSGHDR_LENGTH);
    if (it === null) continue;
    device ??= {
      publicKey: it.bytes(DEVICE.publicKey),
      port: it.u16(DEVICE.port, 0),
      mark: it.u32(DEVICE.mark, 0),
    };
    for (const item of it.list(DEVICE.peers)) {
      const publicKey = item.bytes(PEER.publicKey);
      const allowed = item.list(PEER.allowed).map(toAddress);
      const last = peers.at(-1);
      if (last !== undefined && Buffer.compare(last.publicKey, publicKey) === 0)
        last.allowed.push(...allowed);
      else
        peers.push({
          publicKey,
          ...fromSockaddr(item.bytes(PEER.endpoint)),
          allowed,
        });
    }
  }
  return device && { ...device, peers };
}

function toAllowed({ address, prefixLength }: WireGuardAddress): Uint8Array {
  return nest(0, [
    attribute(ALLOWED.family, u16(address.length === 4 ? AF[4] : AF[6])),
    attribute(ALLOWED.address, address),
    attribute(ALLOWED.length, Uint8Array.of(prefixLength)),
  ]);
}

function toAddress(item: RouteMessage): WireGuardAddress {
  return { address: item.bytes(ALLOWED.address), prefixLength: item.u8(ALLOWED.length, 0) };
}

function toSockaddr(address: AddressBytes, port: number): Uint8Array {
  const family = address.length === 4 ? 4 : 6;
  const bytes = new Uint8Array(SOCKADDR[family].size);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, AF[family], IS_LITTLE_ENDIAN);
  view.setUint16(2, port);
  bytes.set(address, SOCKADDR[family].address);
  return bytes;
}

function fromSockaddr(bytes: Uint8Array): Pick<WireGuardPeer, 'endpoint' | 'port'> {
  const family = ([4, 6] as const).find((each) => SOCKADDR[each].size === bytes.length);
  if (family === undefined) return { endpoint: NO_BYTES, port: 0 };
  const { address } = SOCKADDR[family];
  const port = new DataView(bytes.buffer, bytes.byteOffset).getUint16(2);
  return { endpoint: bytes.slice(address, address + (family === 4 ? 4 : 16)), port };
}

function key(bytes: Uint8Array): Uint8Array {
  if (bytes.length !== KEY_LENGTH) throw new RangeError(`a WireGuard key has ${KEY_LENGTH} bytes`);
  return bytes;
}

/** NETLINK_GENERIC of linux/netlink.h. */
export const GENERIC = 16;
/** struct genlmsghdr: command, version, 2 bytes reserved. */
const GENLMSGHDR_LENGTH = 4;
/** linux/genetlink.h: the family that knows the others. */
const CONTROLLER = 16;
const GET_FAMILY = 3;
const CONTROLLER_VERSION = 2;
const FAMILY = { id: 1, name: 2 } as const;

/** A message of a family; the kernel numbers families as they come. */
function genericMessage(
  family: number,
  command: number,
  version: number,
  flags: number,
  attributes: readonly Uint8Array[],
): Uint8Array {
  const header = Uint8Array.of(command, version, 0, 0);
  return toMessage(family, flags | NLM_F_REQUEST, [header, ...attributes]);
}

/** Asks for a family by name, for which the kernel loads the module. ENOENT: it has none. */
export function familyRequest(name: string): Uint8Array {
  return genericMessage(CONTROLLER, GET_FAMILY, CONTROLLER_VERSION, 0, [
    attribute(FAMILY.name, textBytes(name)),
  ]);
}

/** The number of the family; null: the message is no answer to that. */
export function toFamilyId(message: NetlinkMessage): number | null {
  if (message.type !== CONTROLLER) return null;
  return RouteMessage.of(message, GENLMSGHDR_LENGTH)?.u16(FAMILY.id, 0) || null;
}
