import {
  eachAttribute,
  IS_LITTLE_ENDIAN,
  type NetlinkMessage,
  NLM_F_CREATE,
  NLM_F_DUMP,
  NLM_F_EXCL,
  NLM_F_REPLACE,
  NLM_F_REQUEST,
  textAt,
  toMessage,
} from '../netlink-message.ts';

/**
 * add: EEXIST if there is one. replace: made if there is none. delete: ENOENT, ESRCH or the like if
 * there is none.
 */
export type RouteOperation = 'add' | 'replace' | 'delete';

/** IP addresses as bytes in network byte order: 4, 16, or 0 where there is none. */
export type AddressBytes = Uint8Array;

export const NO_BYTES = new Uint8Array(0);
/** AF_INET, AF_INET6. */
export const AF = { 4: 2, 6: 10 } as const;

const FLAGS = {
  add: NLM_F_CREATE | NLM_F_EXCL,
  replace: NLM_F_CREATE | NLM_F_REPLACE,
  delete: 0,
} as const;

/** RTM_NEW… of a kind of object; RTM_DEL… and RTM_GET… are the next two. */
export const RTM = { link: 16, address: 20, route: 24, neighbour: 28, rule: 32, nexthop: 104 } as const;

export function routeMessage(
  operation: RouteOperation,
  newType: number,
  parts: readonly Uint8Array[],
): Uint8Array {
  const type = newType + (operation === 'delete' ? 1 : 0);
  return toMessage(type, NLM_F_REQUEST | FLAGS[operation], parts);
}

/** Asks for all objects of a kind, or those that the parts name. */
export function dumpMessage(newType: number, ...parts: readonly Uint8Array[]): Uint8Array {
  return toMessage(newType + 2, NLM_F_REQUEST | NLM_F_DUMP, parts);
}

/** The header after nlmsghdr, and the attributes by type. */
export class RouteMessage {
  readonly #view: DataView;
  readonly #start: number;
  readonly #at = new Map<number, readonly [from: number, to: number]>();

  private constructor(view: DataView, start: number, attributes: number, end: number) {
    this.#view = view;
    this.#start = start;
    eachAttribute(view, attributes, end, (type, from, to) => this.#at.set(type, [from, to]));
  }

  /** Null if the message is too short for its header. */
  static of({ view, start, end }: NetlinkMessage, header: number): RouteMessage | null {
    return end - start < header ? null : new RouteMessage(view, start, start + header, end);
  }

  /** A structure inside a message; `end - start` must be at least its header. */
  static within(view: DataView, start: number, end: number, header: number): RouteMessage {
    return new RouteMessage(view, start, start + header, end);
  }

  headerU8(at: number): number {
    return this.#view.getUint8(this.#start + at);
  }

  headerU16(at: number): number {
    return this.#view.getUint16(this.#start + at, IS_LITTLE_ENDIAN);
  }

  headerU32(at: number): number {
    return this.#view.getUint32(this.#start + at, IS_LITTLE_ENDIAN);
  }

  has(type: number): boolean {
    return this.#at.has(type);
  }

  u8(type: number, missing: number): number {
    const at = this.#value(type, 1);
    return at === null ? missing : this.#view.getUint8(at);
  }

  u16(type: number, missing: number): number {
    const at = this.#value(type, 2);
    return at === null ? missing : this.#view.getUint16(at, IS_LITTLE_ENDIAN);
  }

  u32(type: number, missing: number): number {
    const at = this.#value(type, 4);
    return at === null ? missing : this.#view.getUint32(at, IS_LITTLE_ENDIAN);
  }

  /** In network byte order, unlike the others: ports. */
  port(type: number): number {
    const at = this.#value(type, 2);
    return at === null ? 0 : this.#view.getUint16(at);
  }

  /** A copy; empty if it is missing. */
  bytes(type: number): Uint8Array {
    const [from, to] = this.#at.get(type) ?? [0, 0];
    const { buffer, byteOffset } = this.#view;
    return new Uint8Array(buffer, byteOffset + from, to - from).slice();
  }

  text(type: number): string | null {
    const at = this.#at.get(type);
    return at === undefined ? null : textAt(this.#view, ...at);
  }

  /** The family of a header that begins with it; null: neither of the two. */
  family(): 4 | 6 | null {
    const family = this.headerU8(0);
    return family === AF[4] ? 4 : family === AF[6] ? 6 : null;
  }

  /** The attributes inside another one; null if it is missing. */
  nested(type: number): RouteMessage | null {
    const at = this.#at.get(type);
    return at === undefined ? null : new RouteMessage(this.#view, at[0], ...at);
  }

  /** An array: each attribute inside this one holds others, whatever its own type. */
  list(type: number): RouteMessage[] {
    const items: RouteMessage[] = [];
    const [start, end] = this.#at.get(type) ?? [0, 0];
    eachAttribute(this.#view, start, end, (_, from, to) => {
      items.push(new RouteMessage(this.#view, from, from, to));
    });
    return items;
  }

  #value(type: number, length: number): number | null {
    const at = this.#at.get(type);
    return at === undefined || at[1] - at[0] < length ? null : at[0];
  }
}
