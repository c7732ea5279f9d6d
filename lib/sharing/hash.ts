import { createHash, hash } from 'node:crypto';

/**
 * The first `length` hex digits of the SHA-256 of the parts as JSON. Each digit is 4 bits: with 12
 * digits, a collision is expected at about 2^24 names.
 */
export function shortHash(length: number, ...parts: unknown[]): string {
  return hash('sha256', JSON.stringify(parts)).slice(0, length);
}

/** The SHA-256 of values as JSON, in base64, which never needs the text of all at once. */
export function valuesDigest(values: Iterable<unknown>): string {
  const digest = createHash('sha256');
  for (const value of values) digest.update(`${JSON.stringify(value)}\n`);
  return digest.digest('base64');
}
