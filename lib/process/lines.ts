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
