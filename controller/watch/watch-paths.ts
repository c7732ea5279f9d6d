import { type FSWatcher, statSync, watch } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { FileList } from './files.ts';

export interface PathWatcher {
  /**
   * Watches the directories of a list from now on. Returns true if some of them were not watched
   * before: then the list may be outdated already.
   */
  follow(list: FileList): boolean;
  /** The system refused a watch (too many watches); only polling helps. */
  isDeaf(): boolean;
  close(): void;
}

/** A watched directory; the watch ends if another directory takes its path. */
interface Watched {
  readonly path: string;
  /** The names in it that matter, whatever they refer to; null: all. */
  readonly only: ReadonlySet<string> | null;
}

/**
 * Calls `changed` whenever something may have changed at or below the paths, sometimes without a
 * change. The argument is the path of the change in a directory of the list, or null if the event
 * isn't specific enough. Uses inotify(7) through node:fs, with one watch for each directory,
 * because events of a directory include its files.
 */
export function watchPaths(paths: readonly string[], changed: (path: string | null) => void): PathWatcher {
  const open = new Map<string, FSWatcher>();
  let deaf = false;

  function drop(key: string): void {
    open.get(key)?.close();
    open.delete(key);
  }
  function start(key: string, { path, only }: Watched): void {
    try {
      const watcher = watch(path, (_, name) => {
        // The directory itself was deleted or moved, or (possibly) an entry in it that has its
        // name: the next list decides.
        const isItself = name === basename(path);
        if (isItself) drop(key);
        if (name === null || isItself) changed(null);
        else if (only === null) changed(join(path, name));
        else if (only.has(name)) changed(null);
      });
      watcher.on('error', () => {
        drop(key);
        changed(null);
      });
      open.set(key, watcher);
    } catch (error) {
      // It was deleted meanwhile: another list follows soon.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') deaf = true;
      else changed(null);
    }
  }

  return {
    follow(list) {
      const wanted = wantedOf(paths, list);
      for (const key of open.keys()) if (!wanted.has(key)) drop(key);
      deaf = false;
      let isNew = false;
      for (const [key, watched] of wanted) {
        if (open.has(key)) continue;
        start(key, watched);
        isNew ||= open.has(key);
      }
      return isNew;
    },
    isDeaf: () => deaf,
    close() {
      for (const key of [...open.keys()]) drop(key);
    },
  };
}

/**
 * Three kinds of directories: the searched ones; the parents of the paths, because a path may be
 * added, removed, or changed to lead elsewhere; the parents of the targets of links.
 */
function wantedOf(paths: readonly string[], { directories, links }: FileList): Map<string, Watched> {
  const wanted = new Map<string, Watched>();
  for (const { path, id } of directories) wanted.set(`${path} ${id}`, { path, only: null });
  const targets = Map.groupBy([...paths, ...links], dirname);
  for (const [path, found] of targets) {
    const id = directoryId(path);
    if (id === null) continue;
    const only = new Set(found.map((target) => basename(target)));
    wanted.set(`${path} ${id} ${[...only].sort().join('/')}`, { path, only });
  }
  return wanted;
}

/** Null if it doesn't exist, or can't be read. */
function directoryId(path: string): string | null {
  try {
    const { dev, ino } = statSync(path);
    return `${dev}:${ino}`;
  } catch {
    return null;
  }
}
