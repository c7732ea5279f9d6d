import { lstatSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeStateDirectory } from '../../lib/process/state-file.ts';

/**
 * That nothing is to be enforced on this node (SEMANTICS.md section 6), as far as it is written
 * down.
 */
export interface Off {
  /** '' where none was given. */
  readonly reason: string;
  /** ISO 8601; '' where it isn't known. */
  readonly since: string;
  /** Who said so; '' where it isn't known. */
  readonly by: string;
}

/**
 * In the state directory. That it is there counts, whatever it holds: somebody without nodewall
 * makes it by touch(1).
 */
export const OFF_FILE = 'off';
/** Bytes that are read of it, and characters of each text in it. */
const MOST_BYTES = 16 * 1024;
const LONGEST_TEXT = 1_024;
const NOT_THERE: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ENOTDIR']);

/** Null: there is no such file. Throws where that can't be found out. */
export function readOff(stateDir: string): Off | null {
  const path = join(stateDir, OFF_FILE);
  let isReadable: boolean;
  try {
    const stat = lstatSync(path);
    isReadable = stat.isFile() && stat.size <= MOST_BYTES;
  } catch (error) {
    if (NOT_THERE.has((error as NodeJS.ErrnoException).code)) return null;
    throw error;
  }
  return isReadable ? parsed(path) : UNSAID;
}

const UNSAID: Off = { reason: '', since: '', by: '' };

function parsed(path: string): Off {
  try {
    const { reason, since, by } = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
    return { reason: text(reason), since: text(since), by: text(by) };
  } catch {
    // Empty, half written, not ours to read: it is there all the same.
    return UNSAID;
  }
}

function text(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, LONGEST_TEXT) : '';
}

/** Written beside and renamed. On a disk without room it is left empty, which says the same. */
export async function writeOff(stateDir: string, { reason, since, by }: Off): Promise<void> {
  await makeStateDirectory(stateDir);
  const path = join(stateDir, OFF_FILE);
  const temporary = `${path}.${process.pid}`;
  const content = { reason: text(reason), since, by };
  try {
    writeFileSync(temporary, `${JSON.stringify(content)}\n`, { mode: 0o600 });
    renameSync(temporary, path);
  } catch {
    writeFileSync(path, '', { mode: 0o600, flag: 'a' });
  } finally {
    rmSync(temporary, { force: true });
  }
}

/** Whether it was there. */
export function removeOff(stateDir: string): boolean {
  try {
    rmSync(join(stateDir, OFF_FILE), { recursive: true });
    return true;
  } catch (error) {
    if (NOT_THERE.has((error as NodeJS.ErrnoException).code)) return false;
    throw error;
  }
}
