/**
 * Reads a whole HTTP body. Null if it is longer than `most` bytes, or if `accept`, called with the
 * length of each chunk, refuses one; the rest is not read. Throws if the connection breaks.
 */
export async function readBody(
  chunks: AsyncIterable<Buffer>,
  most: number,
  accept: (bytes: number) => boolean = () => true,
): Promise<Buffer | null> {
  const kept: Buffer[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    length += chunk.length;
    if (!accept(chunk.length) || length > most) return null;
    kept.push(chunk);
  }
  return Buffer.concat(kept);
}
