import { type Answer, decode } from 'dns-packet';
import type { Address } from '../../lib/net/address.ts';
import type { AddressRecord } from './name-entry.ts';

/** The question of a DNS answer from which addresses may be learnt. */
interface Question {
  /** The ID of the message. */
  readonly id: number;
  /** Lower case, without a trailing dot. */
  readonly name: string;
  /** Number of records in the answer section, according to the header. */
  readonly answers: number;
  /** The TC flag: records were left out for lack of room. */
  readonly isCut: boolean;
}

type Asked = Question | 'garbage' | 'nothing';

const HEADER = 12;
const IS_ANSWER = 0x8000;
const OPCODE = 0x7800;
const TRUNCATED = 0x0200;
const RCODE = 0x000f;
const IN = 1;
/** A, AAAA and ANY. */
const TYPES: ReadonlySet<number> = new Set([1, 28, 255]);
const MAX_NAME = 255;
const MAX_LABEL = 63;
/** Bytes of the smallest record: a pointer for its name, type, class, TTL, length. */
const LEAST_RECORD = 12;

/**
 * Parses a DNS answer up to its question, so that answers for other names cost a microsecond.
 * `nothing`: a failure, an answer without records, or one to another kind of question. Names with
 * other bytes than letters, digits, `-` and `_` are garbage: a label may contain a dot, and would
 * look like two labels.
 */
export function questionOf(message: Uint8Array): Asked {
  if (message.length < HEADER) return 'garbage';
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  const flags = view.getUint16(2);
  const answers = view.getUint16(6);
  if ((flags & IS_ANSWER) === 0 || (flags & OPCODE) !== 0 || view.getUint16(4) !== 1) return 'garbage';
  if ((flags & RCODE) !== 0 || answers === 0) return 'nothing';
  if (answers * LEAST_RECORD > message.length) return 'garbage';
  const read = readName(message, HEADER);
  if (read === null || read.end + 4 > message.length) return 'garbage';
  const isAsked = TYPES.has(view.getUint16(read.end)) && view.getUint16(read.end + 2) === IN;
  if (!isAsked) return 'nothing';
  return { id: view.getUint16(0), name: read.name, answers, isCut: (flags & TRUNCATED) !== 0 };
}

/** The name and ID of a DNS question; null if the message is not a question. */
export function askedFor(message: Uint8Array): Pick<Question, 'id' | 'name'> | null {
  if (message.length < HEADER) return null;
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  if ((view.getUint16(2) & (IS_ANSWER | OPCODE)) !== 0 || view.getUint16(4) !== 1) return null;
  const read = readName(message, HEADER);
  return read === null ? null : { id: view.getUint16(0), name: read.name };
}

/**
 * Reads a name without compression pointers: the question comes first, so there is nothing to point
 * at.
 */
function readName(message: Uint8Array, from: number): { readonly name: string; readonly end: number } | null {
  let name = '';
  let at = from;
  for (;;) {
    const length = message[at++];
    if (length === 0) return { name, end: at };
    if (length === undefined || length > MAX_LABEL || at - from + length > MAX_NAME) return null;
    if (name !== '') name += '.';
    for (const end = at + length; at < end; at++) {
      const byte = toLower(message[at] ?? 0);
      if (byte === null) return null;
      name += String.fromCharCode(byte);
    }
  }
}

function toLower(byte: number): number | null {
  const isUpper = byte >= 65 && byte <= 90;
  if (isUpper) return byte + 32;
  const isPlain = (byte >= 97 && byte <= 122) || (byte >= 48 && byte <= 57) || byte === 45 || byte === 95;
  return isPlain ? byte : null;
}

/** Limit of records that are read of one answer; the rest is ignored. */
export const MAX_RECORDS = 1_024;
/**
 * Bytes of all names that are decoded of one answer: pointers make 1,024 names of 254 bytes of a
 * message of 15 kB, which took 20 ms to decode.
 */
const MOST_NAME_BYTES = 1 << 16;
/** Limit of CNAMEs from the question to an address. */
const MAX_CHAIN = 16;
const POINTER = 0xc0;
/** A, AAAA. */
const ADDRESSES: ReadonlySet<number> = new Set([1, 28]);

/**
 * The addresses that a DNS message gives for the name of its question, following CNAMEs in any
 * order; records of other names are ignored. The TTL (seconds) is the shortest on the path. Throws
 * if the answer section cannot be parsed; later sections are not read.
 */
export function addressesFor({ name, answers }: Question, message: Uint8Array): AddressRecord[] {
  const copy = Buffer.from(message);
  copy.writeUInt16BE(recordsWithin(copy, Math.min(answers, MAX_RECORDS)), 6);
  copy.writeUInt32BE(0, 8);
  const records = Map.groupBy(decode(copy).answers ?? [], ownerOf);
  const found: AddressRecord[] = [];
  const visited = new Set<string>();
  let names = [{ name, ttl: Number.POSITIVE_INFINITY }];
  for (let step = 0; step <= MAX_CHAIN && names.length > 0; step++) {
    const next: typeof names = [];
    for (const { name: owner, ttl } of names) {
      if (visited.has(owner)) continue;
      visited.add(owner);
      for (const record of records.get(owner) ?? []) {
        if (!('ttl' in record) || record.ttl === undefined) continue;
        const shortest = Math.min(ttl, record.ttl);
        if (record.type === 'A' || record.type === 'AAAA')
          found.push({ address: record.data, ttl: shortest });
        else if (record.type === 'CNAME') next.push({ name: record.data.toLowerCase(), ttl: shortest });
      }
    }
    names = next;
  }
  return found;
}

/** RFC 1035, 4.1: what follows the name in a question, and in a record up to its data. */
const QUESTION_REST = 4;
const RECORD_REST = 10;

/**
 * How many of the first records of the answer section have names of so many bytes together. All of
 * them where the message is malformed: decoding says so.
 */
function recordsWithin(message: Buffer, records: number): number {
  let bytes = 0;
  let at = nameAt(message, HEADER).end + QUESTION_REST;
  for (let i = 0; i < records && at < message.length; i++) {
    const owner = nameAt(message, at);
    const data = owner.end + RECORD_REST;
    if (data > message.length) return records;
    // The data of most other types begins with a name.
    const isAddress = ADDRESSES.has(message.readUInt16BE(owner.end));
    bytes += owner.length + (isAddress ? 0 : nameAt(message, data).length);
    if (bytes > MOST_NAME_BYTES) return i;
    at = data + message.readUInt16BE(data - 2);
  }
  return records;
}

/** Length of a name with all that pointers stand for, and where it ends in place. */
function nameAt(message: Buffer, from: number): { readonly length: number; readonly end: number } {
  let end: number | null = null;
  let length = 0;
  for (let at = from; at < message.length && length < MAX_NAME; ) {
    const first = message[at] ?? 0;
    if (first >= POINTER) {
      end ??= at + 2;
      const target = ((first & ~POINTER) << 8) | (message[at + 1] ?? 0);
      // Pointers lead backwards.
      if (target >= at) break;
      at = target;
      length++;
    } else {
      length += first + 1;
      at += first + 1;
      if (first === 0) return { length, end: end ?? at };
    }
  }
  return { length, end: end ?? message.length };
}

function ownerOf(record: Answer): string {
  return record.name.toLowerCase();
}

/** The result of udpPayload. */
type Opened =
  | ({ readonly kind: 'payload'; readonly payload: Uint8Array } & Ends)
  /** A fragment, or a truncated packet. */
  | { readonly kind: 'incomplete' }
  /** Not UDP over IP, or malformed. */
  | { readonly kind: 'garbage' };

interface Ends {
  readonly source: Address;
  readonly destination: Address;
  readonly sourcePort: number;
  readonly destinationPort: number;
}

const UDP = 17;
const UDP_HEADER = 8;
const IPV6_HEADER = 40;
const FRAGMENT = 44;
/** IPv6 extension headers that may precede UDP and have their length in units of 8 bytes. */
const EXTENSIONS: ReadonlySet<number> = new Set([0, 43, 60]);
const GARBAGE: Opened = { kind: 'garbage' };
const INCOMPLETE: Opened = { kind: 'incomplete' };

/**
 * The payload of a UDP packet that starts with its IP header. Shares the packet's memory. Never
 * throws.
 */
export function udpPayload(packet: Uint8Array): Opened {
  const view = new DataView(packet.buffer, packet.byteOffset, packet.byteLength);
  if (view.byteLength === 0) return GARBAGE;
  const version = view.getUint8(0) >> 4;
  if (version === 4) return insideIPv4(view);
  return version === 6 ? insideIPv6(view) : GARBAGE;
}

function insideIPv4(view: DataView): Opened {
  if (view.byteLength < 20) return GARBAGE;
  const headerLength = (view.getUint8(0) & 15) * 4;
  if (headerLength < 20 || view.getUint8(9) !== UDP) return GARBAGE;
  // More fragments follow, or this is not the first one.
  if ((view.getUint16(6) & 0x3fff) !== 0) return INCOMPLETE;
  const address = (at: number): Address => ({ family: 4, value: BigInt(view.getUint32(at)) });
  return insideUDP(view, headerLength, { source: address(12), destination: address(16) });
}

function insideIPv6(view: DataView): Opened {
  if (view.byteLength < IPV6_HEADER) return GARBAGE;
  let next = view.getUint8(6);
  let at = IPV6_HEADER;
  while (EXTENSIONS.has(next) || next === FRAGMENT) {
    if (at + 8 > view.byteLength) return GARBAGE;
    if (next === FRAGMENT && (view.getUint16(at + 2) & 0xfff9) !== 0) return INCOMPLETE;
    const length = next === FRAGMENT ? 8 : 8 * (view.getUint8(at + 1) + 1);
    next = view.getUint8(at);
    at += length;
  }
  if (next !== UDP) return GARBAGE;
  const address = (from: number): Address => ({
    family: 6,
    value: (view.getBigUint64(from) << 64n) | view.getBigUint64(from + 8),
  });
  return insideUDP(view, at, { source: address(8), destination: address(24) });
}

function insideUDP(view: DataView, at: number, ends: Pick<Ends, 'source' | 'destination'>): Opened {
  if (at + UDP_HEADER > view.byteLength) return GARBAGE;
  const length = view.getUint16(at + 4);
  if (length < UDP_HEADER) return GARBAGE;
  if (at + length > view.byteLength) return INCOMPLETE;
  return {
    kind: 'payload',
    ...ends,
    sourcePort: view.getUint16(at),
    destinationPort: view.getUint16(at + 2),
    payload: new Uint8Array(view.buffer, view.byteOffset + at + UDP_HEADER, length - UDP_HEADER),
  };
}
