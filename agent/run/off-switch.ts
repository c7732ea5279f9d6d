import { type FSWatcher, watch } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import type { Log } from '../../lib/process/log.ts';
import { OFF_FILE, type Off, readOff } from './off-file.ts';

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
