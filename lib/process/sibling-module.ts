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
