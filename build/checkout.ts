import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';

/** The repository's root. */
export const ROOT = join(import.meta.dirname, '..');

/** Folders that are not ours, or are made by building. */
const NOT_OURS = new Set(['node_modules', 'dist', '.git']);

/** Every file below a folder of the repository, as paths from its root, sorted. */
export function filesBelow(folder: string, root = ROOT): string[] {
  const found: string[] = [];
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (isMade(path)) continue;
    if (entry.isDirectory()) found.push(...filesBelow(path, root));
    else found.push(path);
  }
  return found.sort();
}

/** Names of the folders in a folder of the repository. */
export function foldersIn(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true })
    .filter(
      (entry) => entry.isDirectory() && !isMade(join(folder, entry.name)) && !entry.name.startsWith('.'),
    )
    .map((entry) => entry.name)
    .sort();
}

/** A folder `build` is ours at the root alone; below it there is what was built. */
function isMade(path: string): boolean {
  const name = basename(path);
  return NOT_OURS.has(name) || (name === 'build' && path !== 'build');
}
