import { type FSWatcher, lstatSync, readFileSync, renameSync, rmSync, watch, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Log } from '../../lib/process/log.ts';
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
const OFF_FILE = 'off';
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

/** Poll interval, for a directory that can't be watched or has been replaced (milliseconds). */
const LOOK_INTERVAL = 5_000;

interface OffSwitchOptions {
  readonly node: string;
  readonly stateDir: string;
  readonly log: Log;
}

/**
 * Whether this node is off, from the file in the state directory: read at construction, then kept
 * current by file events.
 */
export class OffSwitch {
  readonly #options: OffSwitchOptions;
  readonly #listeners = new Set<() => void>();
  readonly #interval: NodeJS.Timeout;
  #watcher: FSWatcher | null = null;
  #now: Off | null = null;

  constructor(options: OffSwitchOptions) {
    this.#options = options;
    this.#watch();
    this.#read();
    this.#interval = setInterval(() => this.#read(), LOOK_INTERVAL).unref();
  }

  /** Null: the node is on. */
  get now(): Off | null {
    return this.#now;
  }

  /** Calls back after each change; returns the function that unsubscribes. */
  listen(changed: () => void): () => void {
    this.#listeners.add(changed);
    return () => void this.#listeners.delete(changed);
  }

  close(): void {
    clearInterval(this.#interval);
    this.#watcher?.close();
    this.#listeners.clear();
  }

  /** Watches the directory with inotify; if that fails, only polling remains. */
  #watch(): void {
    const { node, stateDir, log } = this.#options;
    const failed = (error: Error): void => {
      this.#watcher?.close();
      log.warn(
        `cannot watch the state directory; nodewall off takes effect after up to ${LOOK_INTERVAL / 1000} s`,
        { node, error: error.message },
      );
    };
    try {
      this.#watcher = watch(stateDir, { persistent: false }, (_, name) => {
        if (name === OFF_FILE || name === null) this.#read();
      });
      this.#watcher.on('error', failed);
    } catch (error) {
      failed(error as Error);
    }
  }

  #read(): void {
    const { node, stateDir, log } = this.#options;
    const before = this.#now;
    try {
      this.#now = readOff(stateDir);
    } catch (error) {
      // Keeps the last value: a failing disk must neither open nor close a node.
      log.warn('cannot read whether nodewall is off on this node; it stays as it was', {
        node,
        error: (error as Error).message,
      });
      return;
    }
    if (isDeepStrictEqual(before, this.#now)) return;
    if (this.#now !== null && before === null) {
      log.warn('nodewall is off on this node; nothing is enforced until nodewall on', { node, ...this.#now });
    } else if (this.#now === null) log.info('nodewall is on again on this node', { node });
    for (const listener of this.#listeners) listener();
  }
}
