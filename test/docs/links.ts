import { existsSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

/**
 * The relative links of a Markdown text, without their fragments: addresses with a scheme and links
 * within the page are left out.
 */
export function relativeLinks(text: string): string[] {
  return [...text.matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map(([, link]) => link ?? '');
}

/** Those of a document that lead to no file or folder; `path` is relative to `root`. */
export function brokenLinks(root: string, path: string, text: string): string[] {
  return relativeLinks(text).filter((link) => !existsSync(join(root, normalize(join(dirname(path), link)))));
}
