/**
 * Reads a whole HTTP body. Null if it is longer than `most` bytes, or if `accept`, called with each
 * chunk, refuses one; the rest is not read. Throws if the connection breaks.
 */
export async function readBody(...input: Parameters<typeof readChunks>): Promise<Buffer | null> {
  const chunks = await readChunks(...input);
  return chunks && Buffer.concat(chunks);
}

/** As readBody, without a copy of the bytes. */
export async function readChunks(
  chunks: AsyncIterable<Buffer>,
  most: number,
  accept: (chunk: Buffer) => boolean = () => true,
): Promise<Buffer[] | null> {
  const kept: Buffer[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    length += chunk.length;
    if (!accept(chunk) || length > most) return null;
    kept.push(chunk);
  }
  return kept;
}
