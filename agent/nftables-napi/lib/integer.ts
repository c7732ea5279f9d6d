/** What SO_RCVBUF can be given without an overflow in the kernel, which doubles it. */
export const maximumReceiveBuffer = 2 ** 30 - 1;

/** Throws TypeError if it is no number, RangeError if it is no integer from `least` to `most`. */
export function requireInteger(value: unknown, what: string, least: number, most: number): void {
  if (typeof value !== 'number') throw new TypeError(`${what} must be a number, not ${typeof value}`);
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new RangeError(`${what} must be an integer from ${least} to ${most}, not ${value}`);
  }
}
