import { extname, join } from 'node:path';

/**
 * Returns the path of the module `name`.ts beside another one, for a process or thread of its own.
 * In a bundle (build/package/bundle.ts) such a module is a file of its own with the bundle's
 * extension.
 *
 * @param meta `import.meta` of the module that starts it
 */
export function siblingModule(meta: Pick<ImportMeta, 'dirname' | 'filename'>, name: string): string {
  return join(meta.dirname, `${name}${extname(meta.filename)}`);
}

/** Milliseconds. */
const LOOK = 500;

/**
 * Ends this process, which was started with a channel (child_process.fork), when its parent has
 * ended. Node.js emits no `disconnect` while a socket that was sent waits for the parent's answer,
 * so the channel is looked at besides.
 */
export function exitWithParent(process: NodeJS.Process): void {
  process.on('disconnect', () => process.exit());
  setInterval(() => {
    if (process.connected !== true) process.exit();
  }, LOOK).unref();
}
