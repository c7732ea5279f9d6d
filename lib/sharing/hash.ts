import { hash } from 'node:crypto';

/**
 * The first `length` hex digits of the SHA-256 of the parts' JSON: 4 bits each, so 12 digits hold a
 * collision at 2^24 names.
 */
export function shortHash(length: number, ...parts: unknown[]): string {
  return hash('sha256', JSON.stringify(parts)).slice(0, length);
}
