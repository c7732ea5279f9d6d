import { once } from 'node:events';
import { constants, fstatSync } from 'node:fs';
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises';
import { Socket } from 'node:net';
import { dirname } from 'node:path';
import { Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { createLogger, format, transports } from 'winston';
import type { LogConfig } from '../../apis/config.ts';
import type { LineLog } from '../../lib/process/log.ts';
import { ifAbsent, makeStateDirectory } from '../../lib/process/state-file.ts';
import { recordLine } from './record.ts';

/** Limit in bytes of the records that wait for a slow disk or reader: about 20,000. */
const MAX_WAITING = 8 * 1024 * 1024;

/** Milliseconds to write the waiting records when the agent ends. */
const CLOSE_WITHIN = 2_000;
/** Milliseconds until a recurring failure is logged again, at least. */
const SAY_AGAIN = 60_000;

export interface Writer<Record extends object> {
  /** False if there was no room: the record is lost and counted. */
  write(record: Record): boolean;
  /** The number of lines lost since the last call. */
  consumeLost(): number;
  close(): Promise<void>;
}

interface WriterOptions {
  readonly config: Pick<LogConfig, 'maxBytes' | 'maxFiles'>;
  /** A path, or `stdout`. */
  readonly file: string;
  readonly log: LineLog;
  /** The name of the records, for the log. */
  readonly what?: string;
}

/**
 * Writes records as JSON lines through winston. Never blocks and has bounded memory: lines that
 * cannot be written are counted and logged once.
 */
export function recordWriter<Record extends object>(options: WriterOptions): Writer<Record> {
  const { config, file, log, what = 'flow log' } = options;
  let lost = 0;
  let failing = false;
  let sayAgainAt = 0;
  const failed = (error: Error, lines: number): void => {
    lost += lines;
    if (failing || performance.now() < sayAgainAt) return;
    failing = true;
    sayAgainAt = performance.now() + SAY_AGAIN;
    log.error(`cannot write ${what} records; enforcement continues. ${advice(error, file)}`, {
      file,
      error: error.message,
    });
  };
  const written = (): void => {
    if (failing) log.info(`writing ${what} records again; the next one says how many were lost`, { file });
    failing = false;
  };
  const stream =
    file === 'stdout' ? standardOutput(failed) : new RotatingFile({ ...config, path: file, failed, written });
  const transport = new transports.Stream({ stream, eol: '' });
  const logger = createLogger({
    format: format.printf(({ message }) => String(message)),
    transports: [transport],
  });
  return {
    write(record) {
      const room = stream.writableLength < MAX_WAITING && !stream.destroyed;
      if (room) logger.info(recordLine(record));
      else failed(new Error('the disk or the reader is too slow'), 1);
      return room;
    },
    consumeLost() {
      const count = lost;
      lost = 0;
      return count;
    },
    async close() {
      // The logger emits `finish` before its transport has received everything.
      const handedOver = once(transport, 'finish');
      logger.end();
      await handedOver;
      // A reader that has stopped reading must not keep the agent running.
      const late = setTimeout(() => stream.destroy(), CLOSE_WITHIN);
      if (!stream.destroyed) await finished(stream.end()).catch(() => undefined);
      clearTimeout(late);
    },
  };
}

/**
 * A separate stream for standard output, since an error of process.stdout ends the process
 * (cli/main.ts). A pipe or socket is written without blocking; anything else through the thread
 * pool (fs), like a file.
 */
function standardOutput(failed: (error: Error, lines: number) => void): Writable {
  const kind = fstatSync(1);
  if (!kind.isFIFO() && !kind.isSocket()) {
    return new RotatingFile({
      path: '/dev/stdout',
      maxBytes: Number.POSITIVE_INFINITY,
      maxFiles: 1,
      failed,
      written: () => undefined,
    });
  }
  const socket = new Socket({ fd: 1, readable: false, writable: true });
  socket.on('error', (error) => failed(error, 0));
  return socket;
}

function advice(error: NodeJS.ErrnoException, file: string): string {
  switch (error.code) {
    case 'ENOSPC':
    case 'EDQUOT':
      return `Make room on the disk of ${file}, or set log.maxBytes and log.maxFiles lower`;
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return `Make ${file} writable for the agent, or set log.file to another path`;
    case 'ENOTDIR':
    case 'EISDIR':
    case 'ENOENT':
      return `Set log.file to a file in an existing directory`;
    case 'EPIPE':
      return 'The reader of standard output has ended; restart the agent with a reader, or set log.file to a path';
    default:
      return `The agent retries by itself`;
  }
}

/** Milliseconds without another attempt after a failure. */
const RETRY = 5_000;
/**
 * Milliseconds between two checks, at least, that the path still names the open file: third parties
 * may move it.
 */
const LOOK = 1_000;

export interface RotatingFileOptions {
  readonly path: string;
  /**
   * Size in bytes that a file must not exceed: before that, it is renamed to `path.1`, `path.1` to
   * `path.2`, and so on.
   */
  readonly maxBytes: number;
  /** Number of files, including the current one. */
  readonly maxFiles: number;
  /**
   * Called with the number of lines that could not be written, and why; a partial write is undone.
   */
  readonly failed: (error: Error, lines: number) => void;
  readonly written: (lines: number) => void;
}

/**
 * Writes lines to a file of mode 0600, rotated by size. winston's own File transport (3.19) ignores
 * errors of the file and then waits forever, and loses lines that arrive during a rotation. This
 * stream never fails: lines that cannot be written are reported and dropped, and the file is opened
 * again later.
 */
export class RotatingFile extends Writable {
  readonly #options: RotatingFileOptions;
  #file: OpenFile | null = null;
  #retryAt = 0;
  #lookAt = 0;
  #error: Error = new Error('not tried');

  constructor(options: RotatingFileOptions) {
    super({ decodeStrings: true });
    this.#options = options;
  }

  override _write(line: Buffer, _encoding: string, callback: () => void): void {
    void this.#writeLines([line]).then(callback);
  }

  override _writev(chunks: readonly { readonly chunk: Buffer }[], callback: () => void): void {
    void this.#writeLines(chunks.map(({ chunk }) => chunk)).then(callback);
  }

  override _final(callback: () => void): void {
    void this.#close().then(callback);
  }

  /** Never rejects. */
  async #writeLines(lines: readonly Buffer[]): Promise<void> {
    let done = 0;
    try {
      if (performance.now() < this.#retryAt) throw this.#error;
      while (done < lines.length) {
        const file = await this.#opened(lines[done]?.length ?? 0);
        const part = fitting(
          lines.slice(done),
          file.isRegular ? this.#options.maxBytes - file.size : Infinity,
        );
        await append(file, Buffer.concat(part));
        done += part.length;
      }
    } catch (error) {
      await this.#fail(error as Error, lines.length - done);
    }
    if (done > 0) this.#options.written(done);
  }

  async #fail(error: Error, lines: number): Promise<void> {
    if (error !== this.#error) {
      this.#error = error;
      this.#retryAt = performance.now() + RETRY;
      await this.#close();
    }
    this.#options.failed(error, lines);
  }

  /**
   * The current file if it has room for a line of `length` bytes, else a new one after a rotation.
   */
  async #opened(length: number): Promise<OpenFile> {
    if (this.#file !== null && !(await this.#isThere(this.#file))) await this.#close();
    this.#file ??= await openFile(this.#options.path);
    const { isRegular, size } = this.#file;
    if (!isRegular || size === 0 || size + length <= this.#options.maxBytes) return this.#file;
    await rotate(this.#options);
    await this.#close();
    this.#file = await openFile(this.#options.path);
    return this.#file;
  }

  async #isThere(file: OpenFile): Promise<boolean> {
    if (performance.now() < this.#lookAt) return true;
    this.#lookAt = performance.now() + LOOK;
    const now = await stat(this.#options.path).catch(() => null);
    return now?.ino === file.inode;
  }

  async #close(): Promise<void> {
    const file = this.#file;
    this.#file = null;
    await file?.handle.close().catch(() => undefined);
  }
}

interface OpenFile {
  readonly handle: FileHandle;
  readonly inode: number;
  readonly isRegular: boolean;
  size: number;
}

async function openFile(path: string): Promise<OpenFile> {
  await makeStateDirectory(dirname(path));
  // O_NONBLOCK: do not wait for a reader if the path is a named pipe.
  const { O_RDWR, O_WRONLY, O_APPEND, O_CREAT, O_NONBLOCK } = constants;
  const isFile = await stat(path).then(
    (found) => found.isFile(),
    () => true,
  );
  const handle = await open(path, (isFile ? O_RDWR : O_WRONLY) | O_APPEND | O_CREAT | O_NONBLOCK, 0o600);
  try {
    const found = await handle.stat();
    const file = {
      handle,
      inode: found.ino,
      isRegular: found.isFile(),
      size: found.isFile() ? found.size : 0,
    };
    await endLine(file);
    return file;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** A crash may have left an incomplete line. */
async function endLine(file: OpenFile): Promise<void> {
  if (file.size === 0) return;
  const { buffer } = await file.handle.read(Buffer.alloc(1), 0, 1, file.size - 1);
  if (buffer[0] !== 10) await append(file, Buffer.from('\n'));
}

/** Writes all bytes or none: a full disk leaves no incomplete line. */
async function append(file: OpenFile, bytes: Buffer): Promise<void> {
  let done = 0;
  try {
    while (done < bytes.length) done += (await file.handle.write(bytes, done)).bytesWritten;
  } catch (error) {
    if (done > 0 && file.isRegular) await file.handle.truncate(file.size).catch(() => undefined);
    throw error;
  }
  if (file.isRegular) file.size += bytes.length;
}

/** As many lines as fit into `room` bytes, at least one. */
function fitting(lines: readonly Buffer[], room: number): Buffer[] {
  let left = room;
  const end = lines.findIndex((line, i) => {
    left -= line.length;
    return left < 0 && i > 0;
  });
  return lines.slice(0, end < 0 ? lines.length : end);
}

async function rotate({ path, maxFiles }: RotatingFileOptions): Promise<void> {
  if (maxFiles <= 1) return rm(path, { force: true });
  for (let i = maxFiles - 1; i > 0; i--) {
    await rename(i === 1 ? path : `${path}.${i - 1}`, `${path}.${i}`).catch(ifAbsent);
  }
}
