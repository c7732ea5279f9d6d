import { endianness } from 'node:os';

/** Numbers of linux/netlink.h. Headers are in the machine's byte order. */
export const IS_LITTLE_ENDIAN = endianness() === 'LE';
export const NLM_F_REQUEST = 1;
export const NLM_F_DUMP = 0x300;
export const NLM_F_REPLACE = 0x100;
export const NLM_F_EXCL = 0x200;
export const NLM_F_CREATE = 0x400;
export const NLMSG_ERROR = 2;

const HEADER = 16;
const ATTRIBUTE_HEADER = 4;
/** Without the flags for nests and byte order. */
const TYPE_MASK = 0x3fff;
const NESTED = 0x8000;
/** Flag of an NLMSG_ERROR: attributes follow the header of the refused request. */
const ACK_TLVS = 0x200;
/** enum nlmsgerr_attrs. */
const ERROR_TEXT = 1;

export interface NetlinkMessage {
  readonly type: number;
  readonly sequence: number;
  /** Only of NLMSG_ERROR: the errno, 0 for an acknowledgement. */
  readonly error: number;
  /** Only of NLMSG_ERROR: the kernel's own text (extended ack), often ''. */
  readonly text: string;
  /** The buffer that the message is part of, and the place of what follows the netlink header. */
  readonly view: DataView;
  readonly start: number;
  readonly end: number;
}

function aligned(length: number): number {
  return (length + 3) & ~3;
}

/** Splits a buffer of messages. A part that is no whole message ends it. */
export function* netlinkMessages(bytes: Uint8Array): Generator<NetlinkMessage, void, undefined> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at + HEADER <= bytes.length; ) {
    const length = view.getUint32(at, IS_LITTLE_ENDIAN);
    if (length < HEADER || at + length > bytes.length) return;
    const type = view.getUint16(at + 4, IS_LITTLE_ENDIAN);
    const hasError = type === NLMSG_ERROR && length >= HEADER + 4;
    yield {
      type,
      sequence: view.getUint32(at + 8, IS_LITTLE_ENDIAN),
      error: hasError ? -view.getInt32(at + HEADER, IS_LITTLE_ENDIAN) : 0,
      text: hasError ? errorText(view, at, at + length) : '',
      view,
      start: at + HEADER,
      end: at + length,
    };
    at += aligned(length);
  }
}

/** The kernel repeats the header of the refused request (NETLINK_CAP_ACK), then attributes. */
function errorText(view: DataView, at: number, end: number): string {
  let text = '';
  if ((view.getUint16(at + 6, IS_LITTLE_ENDIAN) & ACK_TLVS) === 0) return text;
  eachAttribute(view, at + HEADER + 4 + HEADER, end, (type, from, to) => {
    if (type === ERROR_TEXT) text = textAt(view, from, to);
  });
  return text;
}

/** The text of an attribute, without the NUL at its end. */
export function textAt(view: DataView, from: number, to: number): string {
  const bytes = Buffer.from(view.buffer, view.byteOffset + from, to - from);
  const end = bytes.indexOf(0);
  return bytes.toString('utf8', 0, end < 0 ? bytes.length : end);
}

/**
 * Visits the attributes between two places. `from` and `to` enclose the value, `at` is the header.
 */
export function eachAttribute(
  view: DataView,
  start: number,
  end: number,
  visit: (type: number, from: number, to: number, at: number) => void,
): void {
  for (let at = start; at + ATTRIBUTE_HEADER <= end; ) {
    const length = view.getUint16(at, IS_LITTLE_ENDIAN);
    if (length < ATTRIBUTE_HEADER || at + length > end) return;
    const type = view.getUint16(at + 2, IS_LITTLE_ENDIAN) & TYPE_MASK;
    visit(type, at + ATTRIBUTE_HEADER, at + length, at);
    at += aligned(length);
  }
}

/** A message of a header and what follows it; each part is padded to four bytes. */
export function toMessage(type: number, flags: number, parts: readonly Uint8Array[]): Uint8Array {
  const length = parts.reduce((sum, part) => aligned(sum) + part.length, HEADER);
  const bytes = new Uint8Array(aligned(length));
  const view = new DataView(bytes.buffer);
  view.setUint32(0, length, IS_LITTLE_ENDIAN);
  view.setUint16(4, type, IS_LITTLE_ENDIAN);
  view.setUint16(6, flags, IS_LITTLE_ENDIAN);
  let at = HEADER;
  for (const part of parts) {
    bytes.set(part, at);
    at = aligned(at + part.length);
  }
  return bytes;
}

/** An attribute whose value is these bytes. */
export function attribute(type: number, value: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(aligned(ATTRIBUTE_HEADER + value.length));
  const view = new DataView(bytes.buffer);
  view.setUint16(0, ATTRIBUTE_HEADER + value.length, IS_LITTLE_ENDIAN);
  view.setUint16(2, type, IS_LITTLE_ENDIAN);
  bytes.set(value, ATTRIBUTE_HEADER);
  return bytes;
}

/** A number of 16 bits in the machine's byte order. */
export function u16(value: number): Uint8Array {
  const bytes = new Uint8Array(2);
  new DataView(bytes.buffer).setUint16(0, value, IS_LITTLE_ENDIAN);
  return bytes;
}

/** A number of 32 bits in the machine's byte order, as rtnetlink has them. */
export function u32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, IS_LITTLE_ENDIAN);
  return bytes;
}

export function textBytes(text: string): Uint8Array {
  return Buffer.from(`${text}\0`);
}

/** An attribute that holds others. */
export function nest(type: number, inner: readonly Uint8Array[]): Uint8Array {
  return attribute(type | NESTED, Buffer.concat(inner));
}
