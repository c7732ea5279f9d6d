import { endianness } from 'node:os';

/** Numbers of linux/netlink.h. Headers are in the machine's byte order. */
export const IS_LITTLE_ENDIAN = endianness() === 'LE';
export const NLM_F_REQUEST = 1;
export const NLM_F_DUMP = 0x300;
export const NLMSG_ERROR = 2;

const HEADER = 16;
const ATTRIBUTE_HEADER = 4;
/** Without the flags for nests and byte order. */
const TYPE_MASK = 0x3fff;

export interface NetlinkMessage {
  readonly type: number;
  readonly sequence: number;
  /** Only of NLMSG_ERROR: the errno, 0 for an acknowledgement. */
  readonly error: number;
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
      view,
      start: at + HEADER,
      end: at + length,
    };
    at += aligned(length);
  }
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
