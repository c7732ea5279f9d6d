import { type Answer, decode } from 'dns-packet';
import type { AddressRecord } from './name-entry.ts';
import type { Question } from './question.ts';

/** Limit of records that are read of one answer; the rest is ignored. */
export const MAX_RECORDS = 1_024;
/** Limit of CNAMEs from the question to an address. */
const MAX_CHAIN = 16;

/**
 * The addresses that a DNS message gives for the name of its question, following CNAMEs in any
 * order; records of other names are ignored. The TTL (seconds) is the shortest on the path. Throws
 * if the answer section cannot be parsed; later sections are not read.
 */
export function addressesFor({ name, answers }: Question, message: Uint8Array): AddressRecord[] {
  const copy = Buffer.from(message);
  copy.writeUInt16BE(Math.min(answers, MAX_RECORDS), 6);
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

function ownerOf(record: Answer): string {
  return record.name.toLowerCase();
}
