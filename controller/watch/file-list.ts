import type { Dirent } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { systemReason } from '../../lib/process/option-value.ts';

export interface FileList {
  /** Paths of the manifest files, sorted; a file that is reached twice is listed once. */
  readonly files: readonly string[];
  /** Directories and paths that could not be read. */
  readonly unreadable: readonly { readonly path: string; readonly reason: string }[];
  /**
   * The searched directories, by the paths under which they were reached. `id` changes if another
   * directory takes the path.
   */
  readonly directories: readonly { readonly path: string; readonly id: string }[];
  /** Real paths of the targets of symbolic links. */
  readonly links: readonly string[];
}

/**
 * Whether a file in a manifests directory is read: hidden files and editors' temporary files are
 * not.
 */
export function isManifestName(name: string): boolean {
  return !name.startsWith('.') && /\.(ya?ml|json)$/i.test(name);
}

/**
 * The manifest files under the paths. Directories are searched recursively, also through symbolic
 * links. Names that start with a dot are skipped, so the `..data` directories of a ConfigMap mount
 * are reached only through the links beside them.
 */
export async function listFiles(paths: readonly string[]): Promise<FileList> {
  const walk: Walk = { files: new Map(), seen: new Set(), unreadable: [], directories: [], links: [] };
  for (const path of paths) await visit(path, true, walk);
  const { unreadable, directories, links } = walk;
  return { files: [...walk.files.values()].sort(), unreadable, directories, links };
}

interface Walk {
  /** From a file's real path to the path under which it was found. */
  readonly files: Map<string, string>;
  /** Real paths of the searched directories. */
  readonly seen: Set<string>;
  readonly unreadable: { path: string; reason: string }[];
  readonly directories: { path: string; id: string }[];
  readonly links: string[];
}

async function visit(path: string, named: boolean, walk: Walk): Promise<void> {
  try {
    const real = await realpath(path);
    const info = await stat(real);
    if (real !== path) walk.links.push(real);
    if (info.isDirectory()) await search(path, real, walk);
    else if (info.isFile()) {
      if (named || isManifestName(path)) add(path, real, walk);
    } else if (named || isManifestName(path))
      walk.unreadable.push({ path, reason: 'is neither a file nor a directory' });
  } catch (error) {
    walk.unreadable.push({ path, reason: `can't be read: ${systemReason(error)}` });
  }
}

/** The directory entry has the type, so that 1,000 files need no stat(2) each. */
async function search(path: string, real: string, walk: Walk): Promise<void> {
  if (walk.seen.has(real)) return;
  walk.seen.add(real);
  try {
    const { dev, ino } = await stat(real);
    const entries = await readdir(real, { withFileTypes: true });
    walk.directories.push({ path, id: `${dev}:${ino}` });
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (!isCandidate(entry)) continue;
      const [at, realAt] = [join(path, entry.name), join(real, entry.name)];
      if (entry.isDirectory()) await search(at, realAt, walk);
      else if (entry.isFile()) add(at, realAt, walk);
      else await visit(at, false, walk);
    }
  } catch (error) {
    walk.unreadable.push({ path, reason: `can't be read: ${systemReason(error)}` });
  }
}

function add(path: string, real: string, { files }: Walk): void {
  if (!files.has(real)) files.set(real, path);
}

function isCandidate(entry: Dirent): boolean {
  if (entry.name.startsWith('.')) return false;
  return entry.isDirectory() || entry.isSymbolicLink() || isManifestName(entry.name);
}
