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

/** A line is too long, incomplete, or not UTF-8. */
export class LineError extends Error {
  override readonly name = 'LineError';
}

/** Splits chunks of bytes into lines of text, wherever the chunks are cut. */
export class LineSplitter {
  readonly #longest: number;
  readonly #decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  #parts: Buffer[] = [];
  #length = 0;

  /** @param longest size limit of a line (bytes): an endless line would fill the memory */
  constructor(longest: number) {
    this.#longest = longest;
  }

  /** The lines that end in this chunk, without their line feeds. Throws a LineError. */
  *push(chunk: Buffer): Generator<string, void, undefined> {
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      this.#add(chunk.subarray(start, end));
      start = end + 1;
      const [only] = this.#parts;
      const bytes = this.#parts.length === 1 ? only : Buffer.concat(this.#parts);
      this.#parts = [];
      this.#length = 0;
      yield this.#decode(bytes);
    }
    if (start < chunk.length) this.#add(chunk.subarray(start));
  }

  /** Throws a LineError if the last line is incomplete: the stream was cut off. */
  end(): void {
    if (this.#length > 0) throw new LineError(`the stream ends within a line, after ${this.#length} bytes`);
  }

  #add(part: Buffer): void {
    this.#parts.push(part);
    this.#length += part.length;
    if (this.#length > this.#longest) throw new LineError(`a line is longer than ${this.#longest} bytes`);
  }

  #decode(bytes: Buffer | undefined): string {
    try {
      return this.#decoder.decode(bytes);
    } catch (cause) {
      throw new LineError('a line is not UTF-8', { cause });
    }
  }
}
