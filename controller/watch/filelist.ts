import type { Dirent } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { systemReason } from './filetext.ts';

export interface FileList {
  /** Manifest files by path, sorted; a file that is reached twice is here once. */
  readonly files: readonly string[];
  /** Directories and paths that could not be read. */
  readonly unreadable: readonly { readonly path: string; readonly reason: string }[];
}

/** Whether a file in a manifests directory is read: hidden ones and editors' temporary files are not. */
function isManifestName(name: string): boolean {
  return !name.startsWith('.') && /\.(ya?ml|json)$/i.test(name);
}

/**
 * The manifest files under the paths. Directories are searched with all below them, through symbolic links too; what
 * starts with a dot is left out, which leaves the `..data` directories of a ConfigMap mount to the links beside them.
 */
export async function listFiles(paths: readonly string[]): Promise<FileList> {
  const walk: Walk = { files: new Map(), seen: new Set(), unreadable: [] };
  for (const path of paths) await visit(path, true, walk);
  return { files: [...walk.files.values()].sort(), unreadable: walk.unreadable };
}

interface Walk {
  /** Real path to the path it was found under. */
  readonly files: Map<string, string>;
  /** Real paths of the directories that were searched. */
  readonly seen: Set<string>;
  readonly unreadable: { path: string; reason: string }[];
}

async function visit(path: string, named: boolean, walk: Walk): Promise<void> {
  try {
    const real = await realpath(path);
    const info = await stat(real);
    if (info.isDirectory()) {
      if (walk.seen.has(real)) return;
      walk.seen.add(real);
      const entries = await readdir(real, { withFileTypes: true });
      for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
        if (isCandidate(entry)) await visit(join(path, entry.name), false, walk);
      }
    } else if (info.isFile()) {
      if ((named || isManifestName(path)) && !walk.files.has(real)) walk.files.set(real, path);
    } else if (named) walk.unreadable.push({ path, reason: 'is neither a file nor a directory' });
  } catch (error) {
    walk.unreadable.push({ path, reason: `can't be read: ${systemReason(error)}` });
  }
}

function isCandidate(entry: Dirent): boolean {
  if (entry.name.startsWith('.')) return false;
  return entry.isDirectory() || entry.isSymbolicLink() || isManifestName(entry.name);
}
