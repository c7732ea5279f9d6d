/** A number of 32 bits in the machine's byte order. */
export function packMachine32(value: number): Uint8Array {
  return new Uint8Array(Uint32Array.of(value).buffer);
}

/** A number of 16 bits in the machine's byte order. */
export function packMachine16(value: number): Uint8Array {
  return new Uint8Array(Uint16Array.of(value).buffer);
}

/** The number that the first four bytes hold in the machine's byte order. */
export function unpackMachine32(packed: Uint8Array): number {
  const [value = 0] = new Uint32Array(Uint8Array.from(packed.subarray(0, 4)).buffer);
  return value;
}

/** Labels of a connection, 128 bits, as nft writes them: one number in the machine's byte order. */
export function packLabels(bits: readonly number[]): Uint8Array {
  const packed = new Uint8Array(16);
  for (const bit of bits) packed[bit >> 3] = (packed[bit >> 3] ?? 0) | (1 << (bit & 7));
  return packMachine16(1)[0] === 1 ? packed : packed.reverse();
}

/** The checksum of IP, TCP, UDP and ICMP (RFC 1071), of bytes whose own field for it is 0. */
export function internetChecksum(bytes: Uint8Array): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 2) sum += ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}
