import { watch } from 'chokidar';

export interface PathWatcher {
  /** Begins anew, for a directory that was gone: the system watches what is there, not names. */
  restart(): void;
  /** The system refused to watch (too many watches); only looking helps. */
  isDeaf(): boolean;
  close(): Promise<void>;
}

/** Calls `changed` whenever something may have changed at or below the paths; too often rather than too rarely. */
export function watchPaths(paths: readonly string[], changed: () => void): PathWatcher {
  let deaf = false;
  const open = (): ReturnType<typeof watch> => {
    const watcher = watch([...paths], { ignoreInitial: true });
    // A raw event comes for what chokidar makes nothing of, as the swap of `..data` in a ConfigMap mount.
    watcher.on('all', changed).on('raw', changed).on('ready', changed);
    watcher.on('error', () => {
      deaf = true;
      changed();
    });
    return watcher;
  };
  let watcher = open();
  let closing: Promise<unknown> = Promise.resolve();
  return {
    restart() {
      const old = watcher;
      closing = Promise.all([closing, old.close()]);
      deaf = false;
      watcher = open();
    },
    isDeaf: () => deaf,
    async close() {
      await Promise.all([closing, watcher.close()]);
    },
  };
}
