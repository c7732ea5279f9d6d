import { existsSync, globSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * Names of files in the prose of a page: words that end in `.ts`, which may have a `*`, and paths
 * in backticks. Links (which brokenLinks checks), fences and indented blocks are left out.
 */
export function fileNames(text: string): string[] {
  const prose = text
    .replaceAll(/^```[\s\S]*?^```/gm, '')
    .replaceAll(/^ {4}.*$/gm, '')
    .replaceAll(/\[[^\]]*\]\([^)]*\)/g, '');
  const files = prose.match(/(?<![\w*./-])[\w*][\w*./-]*\.ts(?![\w-]|\.\w)/g) ?? [];
  const paths = [...prose.matchAll(/`([\w.-]+(?:\/[\w.-]+)*\/[\w.-]*)`/g)].map(([, path]) => path ?? '');
  return [...new Set([...files, ...paths])];
}

/**
 * The names in a folder's README.md that are no file or folder, from that folder or from `root`. A
 * path counts only if its first folder is there: others are on nodes or on the network. A name with
 * a `*` and without a folder may be of a file anywhere below.
 */
export function missingFiles(root: string, path: string, text: string): string[] {
  const folders = [join(root, dirname(path)), root];
  const isHere = (name: string): boolean => folders.some((folder) => existsSync(join(folder, name)));
  return fileNames(text).filter((name) => {
    if (name.includes('*'))
      return globSync(name.includes('/') ? name : `**/${name}`, { cwd: folders[0] }).length === 0;
    if (!name.endsWith('.ts') && !isHere(name.split('/', 1)[0] ?? '')) return false;
    return !isHere(name);
  });
}
