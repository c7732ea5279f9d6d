import { lstatSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeStateDirectory } from '../../lib/process/state-file.ts';

/**
 * The switch that turns enforcement off on this node (docs/semantics.md section 6), as saved in its
 * file.
 */
export interface Off {
  /** '' if none was given. */
  readonly reason: string;
  /** ISO 8601; '' if not known. */
  readonly since: string;
  /** The user who turned it off; '' if not known. */
  readonly by: string;
}

/**
 * The file's name in the state directory. Its existence counts, not its content: without nodewall
 * it can be made by touch(1).
 */
export const OFF_FILE = 'off';
/** Limits: bytes of a file that is read, and characters of each text in it. */
const MOST_BYTES = 16 * 1024;
const LONGEST_TEXT = 1_024;
const NOT_THERE: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ENOTDIR']);

/** Null: there is no such file. Throws if its existence can't be determined. */
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
    // An empty, incomplete or unreadable file counts as existing.
    return UNSAID;
  }
}

function text(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, LONGEST_TEXT) : '';
}

/**
 * Writes a temporary file and renames it. If that fails, as on a full disk, makes an empty file,
 * which has the same effect.
 */
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

/** Returns whether the file existed. */
export function removeOff(stateDir: string): boolean {
  try {
    rmSync(join(stateDir, OFF_FILE), { recursive: true });
    return true;
  } catch (error) {
    if (NOT_THERE.has((error as NodeJS.ErrnoException).code)) return false;
    throw error;
  }
}
