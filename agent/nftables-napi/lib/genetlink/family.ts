import { attribute, type NetlinkMessage, NLM_F_REQUEST, textBytes, toMessage } from '../netlink-message.ts';
import { RouteMessage } from '../rtnetlink/object.ts';

/** NETLINK_GENERIC of linux/netlink.h. */
export const GENERIC = 16;
/** struct genlmsghdr: command, version, 2 bytes reserved. */
export const GENLMSGHDR_LENGTH = 4;
/** linux/genetlink.h: the family that knows the others. */
const CONTROLLER = 16;
const GET_FAMILY = 3;
const CONTROLLER_VERSION = 2;
const FAMILY = { id: 1, name: 2 } as const;

/** A message of a family; the kernel numbers families as they come. */
export function genericMessage(
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
