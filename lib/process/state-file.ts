import { hash } from 'node:crypto';
import { constants } from 'node:fs';
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

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
