const rotated = (value: number, by: number): number => (value << by) | (value >>> (32 - by));

/**
 * The kernel's jhash (include/linux/jhash.h, Bob Jenkins' lookup3), as a little-endian machine
 * computes it.
 */
export function jhash(key: Uint8Array, seed: number): number {
  let a = (0xdeadbeef + key.length + seed) | 0;
  let b = a;
  let c = a;
  const word = (at: number): number =>
    (key[at] ?? 0) | ((key[at + 1] ?? 0) << 8) | ((key[at + 2] ?? 0) << 16) | ((key[at + 3] ?? 0) << 24);
  let at = 0;
  for (; key.length - at > 12; at += 12) {
    a = (a + word(at)) | 0;
    b = (b + word(at + 4)) | 0;
    c = (c + word(at + 8)) | 0;
    a = ((a - c) ^ rotated(c, 4)) | 0;
    c = (c + b) | 0;
    b = ((b - a) ^ rotated(a, 6)) | 0;
    a = (a + c) | 0;
    c = ((c - b) ^ rotated(b, 8)) | 0;
    b = (b + a) | 0;
    a = ((a - c) ^ rotated(c, 16)) | 0;
    c = (c + b) | 0;
    b = ((b - a) ^ rotated(a, 19)) | 0;
    a = (a + c) | 0;
    c = ((c - b) ^ rotated(b, 4)) | 0;
    b = (b + a) | 0;
  }
  if (key.length === at) return c >>> 0;
  a = (a + word(at)) | 0;
  b = (b + word(at + 4)) | 0;
  c = (c + word(at + 8)) | 0;
  c = ((c ^ b) - rotated(b, 14)) | 0;
  a = ((a ^ c) - rotated(c, 11)) | 0;
  b = ((b ^ a) - rotated(a, 25)) | 0;
  c = ((c ^ b) - rotated(b, 16)) | 0;
  a = ((a ^ c) - rotated(c, 4)) | 0;
  b = ((b ^ a) - rotated(a, 14)) | 0;
  c = ((c ^ b) - rotated(b, 24)) | 0;
  return c >>> 0;
}

/** `jhash KEY mod N`: nft scales the hash, it does not divide (reciprocal_scale()). */
export function bucketOf(key: Uint8Array, modulus: number, seed: number): number {
  return Number((BigInt(jhash(key, seed)) * BigInt(modulus)) >> 32n);
}
