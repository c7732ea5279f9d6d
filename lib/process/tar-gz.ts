import { createWriteStream, type WriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createGzip, type Gzip } from 'node:zlib';
import { createTar } from 'nanotar';

const BLOCK = 512;
/** The end of an archive (POSIX pax, ustar interchange format). */
const END = Buffer.alloc(2 * BLOCK);
/** Longest name of a file in an archive (ustar). */
export const LONGEST_NAME = 100;

/**
 * A tar.gz file of at most so many bytes, written as its files are added; readable by its owner
 * only.
 */
export class TarGz {
  readonly #most: number;
  readonly #modified: number;
  readonly #gzip: Gzip = createGzip();
  readonly #file: WriteStream;
  readonly #done: Promise<void>;
  /** Not compressed yet. */
  #pending = 0;

  /**
   * @param path must not exist
   * @param options `most`: bytes; `modified`: of all files, milliseconds since 1970
   */
  constructor(path: string, { most, modified }: { readonly most: number; readonly modified: number }) {
    this.#most = most;
    this.#modified = modified;
    this.#file = createWriteStream(path, { flags: 'wx', mode: 0o600 });
    this.#done = pipeline(this.#gzip, this.#file);
    // The next call of add or close rejects with the error.
    this.#done.catch(() => {});
  }

  /** Bytes in the file so far. */
  get bytes(): number {
    return this.#file.bytesWritten;
  }

  /**
   * False, with nothing added, if the archive might grow beyond its limit by that, as far as it is
   * compressed by now. Rejects if the file cannot be written.
   *
   * @param reserve bytes that must stay free for other files
   */
  async add(name: string, content: string, reserve: number): Promise<boolean> {
    if (Buffer.byteLength(name) > LONGEST_NAME) throw new RangeError(`too long for an archive: ${name}`);
    const data = Buffer.from(content);
    const size = BLOCK + Math.ceil(data.length / BLOCK) * BLOCK;
    if (this.#file.bytesWritten + this.#pending + size + END.length + reserve > this.#most) return false;
    const attrs = { mode: '600', uid: 0, gid: 0, mtime: this.#modified };
    this.#pending += size;
    // Without the end of an archive, which createTar appends. An empty file needs its data, else it
    // is a folder.
    await this.#write(Buffer.from(createTar([{ name, data, attrs }]).subarray(0, size)));
    await this.#flush();
    this.#pending -= size;
    return true;
  }

  async close(): Promise<void> {
    this.#gzip.end(END);
    await this.#done;
  }

  async #write(bytes: Buffer): Promise<void> {
    const written = new Promise<void>((resolve, reject) => {
      this.#gzip.write(bytes, (error) => (error ? reject(error) : resolve()));
    });
    await Promise.race([written, this.#done]);
  }

  /** So that the bytes in the file say what the archive has come to. */
  async #flush(): Promise<void> {
    await Promise.race([new Promise<void>((resolve) => this.#gzip.flush(() => resolve())), this.#done]);
  }
}
