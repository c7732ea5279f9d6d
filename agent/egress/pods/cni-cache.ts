import { constants, type FSWatcher, watch } from 'node:fs';
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../../lib/process/clock.ts';
import type { Log } from '../../../lib/process/log.ts';
import { type PodAttachment, readCachedResult } from './attachment.ts';

/** Milliseconds between two readings of the directory, for lost events and files without any. */
const INTERVAL = 10_000;
/** Bytes: a result has less than 4 kB, the network's configuration in it a few more. */
const LARGEST = 1 << 20;
/** A node has at most some hundred pods, each with a few networks. */
const MOST_FILES = 10_000;

interface CniCacheOptions {
  /** The directory of libcni's results. */
  readonly path: string;
  readonly log: Log;
  readonly clock: Clock;
  /** A file was written or removed (null); `at`: when it was written (milliseconds since 1970). */
  readonly changed: (name: string, attachment: PodAttachment | null, at: number) => void;
}

/**
 * Follows libcni's result cache, which has a file for each interface of a pod from the end of CNI
 * ADD, before containers start, to the end of DEL. Its files are another program's: those that are
 * not valid are logged and ignored.
 */
export class CniCache {
  readonly #options: CniCacheOptions;
  /** When each file was written; those that are not valid too. */
  readonly #files = new Map<string, number>();
  readonly #invalid = new Set<string>();
  #watcher: FSWatcher | null = null;
  #cancel: () => void = () => {};
  #isClosed = false;
  #wasMissing = false;
  /** Reads one after another, so that the last state of a file counts. */
  #work: Promise<void> = Promise.resolve();

  constructor(options: CniCacheOptions) {
    this.#options = options;
  }

  /** Resolves once all files that are there were read. */
  start(): Promise<void> {
    return this.#then(() => this.#scan());
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancel();
    this.#watcher?.close();
    await this.#work;
  }

  #then(work: () => Promise<void>): Promise<void> {
    this.#work = this.#work.then(() => (this.#isClosed ? undefined : work()));
    return this.#work;
  }

  async #scan(): Promise<void> {
    this.#watch();
    const names = await this.#names();
    for (const name of this.#files.keys()) if (!names.has(name)) this.#remove(name);
    for (const name of names) await this.#read(name, false);
    if (this.#isClosed) return;
    this.#cancel = this.#options.clock.after(INTERVAL, () => void this.#then(() => this.#scan()));
  }

  /** Before the directory is read: what changes afterwards has an event. */
  #watch(): void {
    if (this.#watcher !== null) return;
    try {
      const watcher = watch(this.#options.path, (_, name) => {
        if (name !== null) void this.#then(() => this.#read(name, true));
      });
      watcher.on('error', () => this.#unwatch());
      this.#watcher = watcher;
    } catch {
      // Reading the directory says why.
    }
  }

  #unwatch(): void {
    this.#watcher?.close();
    this.#watcher = null;
  }

  async #names(): Promise<Set<string>> {
    const { path, log } = this.#options;
    try {
      const names = await readdir(path);
      if (this.#wasMissing) log.info("reading addresses of pods from CNI's results", { path });
      this.#wasMissing = false;
      if (names.length > MOST_FILES)
        log.warn(`more than ${MOST_FILES} results of CNI; the rest is not read`, {
          path,
          files: names.length,
        });
      return new Set(names.slice(0, MOST_FILES));
    } catch (error) {
      this.#unwatch();
      if (!this.#wasMissing)
        log.warn("cannot read CNI's results; addresses of pods are known when the API server has them", {
          path,
          error: (error as Error).message,
        });
      this.#wasMissing = true;
      return new Set();
    }
  }

  async #read(name: string, isEvent: boolean): Promise<void> {
    try {
      const found = await this.#content(name, isEvent ? null : (this.#files.get(name) ?? null));
      if (found === null) return;
      this.#files.set(name, found.at);
      this.#options.changed(name, readCachedResult(found.text), found.at);
      this.#invalid.delete(name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return this.#remove(name);
      this.#options.changed(name, null, 0);
      // A file is seen while it is written: the next reading counts.
      if (isEvent) this.#files.delete(name);
      if (isEvent || this.#invalid.has(name)) return;
      this.#invalid.add(name);
      const { path, log } = this.#options;
      log.warn('a result of CNI is not valid; it is ignored', {
        path: join(path, name),
        error: (error as Error).message,
      });
    }
  }

  /** Null: it was not written since `known`. */
  async #content(name: string, known: number | null): Promise<{ text: string; at: number } | null> {
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
    const file = await open(join(this.#options.path, name), flags);
    try {
      const stat = await file.stat();
      if (!stat.isFile()) throw new Error('not a file');
      if (stat.size > LARGEST) throw new Error(`larger than ${LARGEST} bytes`);
      if (stat.mtimeMs === known) return null;
      const bytes = Buffer.alloc(stat.size);
      const { bytesRead } = await file.read(bytes, 0, stat.size, 0);
      return { text: bytes.toString('utf8', 0, bytesRead), at: stat.mtimeMs };
    } finally {
      await file.close();
    }
  }

  #remove(name: string): void {
    this.#invalid.delete(name);
    this.#files.delete(name);
    this.#options.changed(name, null, 0);
  }
}
