import { hash } from 'node:crypto';
import { constants } from 'node:fs';
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Log } from './log.ts';

/** For `catch`: null where there is no such file, or program. Throws any other error. */
export function ifAbsent(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null;
  throw error;
}

/** Writes a file with mode 0600, and returns once it is on the disk. */
export async function writeSynced(path: string, text: string): Promise<void> {
  const file = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC, 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** A rename is durable only once the directory is synced (fsync(2)). */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, constants.O_RDONLY);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/**
 * A file in the state directory that must survive a restart, a crash and a power failure. One
 * header line has the length and SHA-256 of the rest. A write goes to a temporary file, which is
 * synced and renamed over the old one, and then the directory is synced: a reader sees either the
 * old or the new content, never a part. Mode 0600.
 */
export interface StateFile {
  /** Null if there is no file. Throws StateFileError if it can't be read or fails verification. */
  read(): Promise<string | null>;
  write(body: string): Promise<void>;
}

export class StateFileError extends Error {
  override readonly name = 'StateFileError';
}

const FORMAT = 'nodewall-state/1';

/** The state file of this name in a state directory, which a write creates if necessary. */
export function stateFile(directory: string, name: string): StateFile {
  const path = join(directory, name);
  return {
    async read() {
      let text: string;
      try {
        text = await readFile(path, 'utf8');
      } catch (error) {
        if (isCode(error, 'ENOENT')) return null;
        throw new StateFileError(`${path}: cannot be read`, { cause: error });
      }
      return verified(path, text);
    },
    async write(body) {
      await makeStateDirectory(directory);
      // One fixed name, so that a file left behind by a crash is overwritten. The agent's lock
      // ensures that there is one writer.
      const temporary = `${path}.new`;
      try {
        await writeSynced(temporary, `${header(body)}\n${body}`);
        await rename(temporary, path);
        await syncDirectory(directory);
      } catch (error) {
        await rm(temporary, { force: true });
        throw error;
      }
    },
  };
}

/**
 * Makes the directory with mode 0700. The last component is made separately: Node's recursive mkdir
 * never returns in /proc, which always answers ENOENT.
 */
export async function makeStateDirectory(path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await mkdir(path, { mode: 0o700 }).catch((error: unknown) => {
    if (!isCode(error, 'EEXIST')) throw error;
  });
}

function header(body: string): string {
  return JSON.stringify({ format: FORMAT, bytes: Buffer.byteLength(body), sha256: hash('sha256', body) });
}

function verified(path: string, text: string): string {
  const end = text.indexOf('\n');
  const body = text.slice(end + 1);
  if (end >= 0 && text.slice(0, end) === header(body)) return body;
  throw new StateFileError(`${path}: damaged or of another version; remove it to start without it`);
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/** The content of the file or files: a text, or texts by name. */
type Body = string | Readonly<Record<string, string>>;

export interface SavedFile<B extends Body> {
  /** Null: there is none. */
  read(): Promise<B | null>;
  write(body: B): Promise<void>;
}

interface SaverOptions {
  /**
   * The least time between two writes (milliseconds): the first value is written at once, a burst
   * after it in one write.
   */
  readonly interval?: number;
}

const WRITE_INTERVAL = 500;
/** Wait before a failed write is retried (milliseconds). */
const WRITE_RETRY = 10_000;
/** A write that takes longer is reported (milliseconds). */
const STUCK = 10_000;

/**
 * Keeps a file equal to the latest value. Failed reads and writes are logged; writes are retried.
 */
export class Saver<T, B extends Body = string> {
  readonly #file: SavedFile<B>;
  readonly #toBody: (value: T) => B;
  readonly #log: Log;
  readonly #interval: number;
  #waiting: T | null = null;
  #last: T | null = null;
  /** The digest of what the file has. */
  #written: string | null = null;
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> = Promise.resolve();
  #lastWrite = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor(
    file: SavedFile<B>,
    toBody: (value: T) => B,
    log: Log,
    { interval = WRITE_INTERVAL }: SaverOptions = {},
  ) {
    this.#file = file;
    this.#toBody = toBody;
    this.#log = log;
    this.#interval = interval;
  }

  save(value: T): void {
    if (this.#isClosed) return;
    // A change of resolved names doesn't change the saved state: the same object is not
    // serialized again.
    if (this.#waiting === null && value === this.#last) return;
    this.#waiting = value;
    const wait = Math.max(0, this.#lastWrite + this.#interval - performance.now());
    this.#timer ??= setTimeout(() => void this.flush(), wait);
  }

  async read<R>(parse: (body: B) => R): Promise<R | null> {
    try {
      const body = await this.#file.read();
      return body === null ? null : parse(body);
    } catch (error) {
      this.#log.error('cannot read a state file; starting without it', { error: (error as Error).message });
      return null;
    }
  }

  flush(): Promise<void> {
    if (this.#isClosed) return this.#writing;
    return this.#writeNow();
  }

  #writeNow(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  /**
   * Writes what waits. From then on nothing is saved or retried: another one may have the file, and
   * newer values.
   */
  close(): Promise<void> {
    if (this.#isClosed) return this.#writing;
    this.#isClosed = true;
    return this.#writeNow();
  }

  async #write(): Promise<void> {
    if (this.#waiting === null) return;
    const value = this.#waiting;
    this.#waiting = null;
    this.#last = null;
    this.#lastWrite = performance.now();
    const slow = setTimeout(() => this.#sayStuck(), STUCK).unref();
    try {
      const body = this.#toBody(value);
      const digest = hash('sha256', typeof body === 'string' ? body : Object.entries(body).flat().join('\0'));
      if (digest !== this.#written) await this.#file.write(body);
      this.#written = digest;
      this.#last = value;
    } catch (error) {
      const then = this.#isClosed ? '' : ', trying again';
      this.#log.error(`cannot write a state file; enforcement continues${then}`, {
        error: (error as Error).message,
      });
      this.#waiting ??= value;
      if (this.#isClosed) return;
      this.#timer ??= setTimeout(() => void this.flush(), WRITE_RETRY).unref();
    } finally {
      clearTimeout(slow);
    }
  }

  #sayStuck(): void {
    this.#log.error('the disk does not answer: a state file has not been written; enforcement continues', {
      seconds: STUCK / 1000,
    });
  }
}
