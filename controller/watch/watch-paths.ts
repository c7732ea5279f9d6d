import { type FSWatcher, statSync, watch } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { FileList } from './file-list.ts';

export interface PathWatcher {
  /**
   * Watches what a list was made of from now on. True where it did not watch some of it before:
   * then the list may be old already.
   */
  follow(list: FileList): boolean;
  /** The system refused to watch (too many watches); only looking helps. */
  isDeaf(): boolean;
  close(): void;
}

/** A directory that is watched, as long as it is the same one. */
interface Watched {
  readonly path: string;
  /** Names in it that matter, of whatever it is that they lead to; null: all do. */
  readonly only: ReadonlySet<string> | null;
}

/**
 * Calls `changed` whenever something may have changed at or below the paths; too often rather than
 * too rarely. It is given the path of what changed in a directory of the list, or null where that
 * says too little. By inotify(7) through node:fs: one watch a directory, whatever is in it, since a
 * directory's events tell of its files too.
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
        // The directory itself went, was moved, or (perhaps) something in it of its name: the next
        // list says.
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
      // It is gone meanwhile: then there is another list soon.
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
 * The directories that were searched; those that the paths are in, for a path may come, go, or lead
 * elsewhere; those of files that links lead to.
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

/** Null where there is none, or it can't be read. */
function directoryId(path: string): string | null {
  try {
    const { dev, ino } = statSync(path);
    return `${dev}:${ino}`;
  } catch {
    return null;
  }
}
