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
