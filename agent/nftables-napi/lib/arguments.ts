import type { Binding, TableFamily } from './binding.ts';

/** The kernel's number of a family. Throws a TypeError for an unknown one. */
export function toFamilyNumber(family: TableFamily, binding: Binding): number {
  if (!Object.hasOwn(binding.families, family)) throw new TypeError(`unknown family ${String(family)}`);
  return binding.families[family];
}

/**
 * Checks a name: 1 to 255 bytes without NUL (NFT_NAME_MAXLEN is 256 with its NUL). Throws a
 * TypeError if it is not a string, else a RangeError.
 */
export function requireName(name: unknown, what: string): asserts name is string {
  if (typeof name !== 'string') throw new TypeError(`${what} must be a string, not ${typeof name}`);
  if (name === '' || (name.length > 85 && Buffer.byteLength(name) > 255) || name.includes('\0')) {
    throw new RangeError(`${what} must have 1 to 255 bytes and no NUL`);
  }
}

/** Maximum of SO_RCVBUF in bytes: the kernel doubles the value and must not overflow. */
export const maximumReceiveBuffer = 2 ** 30 - 1;

/**
 * Throws a TypeError if the value is not a number, a RangeError if it is not an integer from
 * `least` to `most`.
 */
export function requireInteger(value: unknown, what: string, least: number, most: number): void {
  if (typeof value !== 'number') throw new TypeError(`${what} must be a number, not ${typeof value}`);
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new RangeError(`${what} must be an integer from ${least} to ${most}, not ${value}`);
  }
}
