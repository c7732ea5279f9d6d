import { type Answer, decode } from 'dns-packet';
import type { AddressRecord } from './name-entry.ts';
import type { Question } from './question.ts';

/** Limit of records that are read of one answer; the rest is ignored. */
export const MAX_RECORDS = 1_024;
/**
 * Bytes of all names that are decoded of one answer: pointers make 1,024 names of 254 bytes of a
 * message of 15 kB, which took 20 ms to decode.
 */
const MOST_NAME_BYTES = 1 << 16;
/** Limit of CNAMEs from the question to an address. */
const MAX_CHAIN = 16;
const HEADER = 12;
const MAX_NAME = 255;
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
