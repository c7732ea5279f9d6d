import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

/**
 * The relative links of a Markdown text, without their fragments: addresses with a scheme and links
 * within the page are left out.
 */
export function relativeLinks(text: string): string[] {
  return [...text.matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map(([, link]) => link ?? '');
}

/** Links to headings that their Markdown document does not have. */
export function brokenFragments(root: string, path: string, text: string): string[] {
  const links = [...text.matchAll(/\]\(([^)#:]*)#([^)]+)\)/g)];
  return links.flatMap(([, link = '', fragment = '']) => {
    const target = join(root, link === '' ? path : normalize(join(dirname(path), link)));
    if (!target.endsWith('.md') || !existsSync(target)) return [];
    return fragmentsOf(readFileSync(target, 'utf8')).has(fragment) ? [] : [`${link}#${fragment}`];
  });
}

/** The fragments of a document's headings and of its own anchors, as GitHub makes them. */
function fragmentsOf(text: string): ReadonlySet<string> {
  const counts = new Map<string, number>();
  const headings = text
    .replaceAll(/^(`{3,}).*?^\1/gms, '')
    .matchAll(/^#{1,6} (.*)$/gm)
    .map(([, title = '']) => {
      const plain = title.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
      const fragment = plain.replaceAll(/[^\p{L}\p{N}\p{Pc} -]/gu, '').replaceAll(' ', '-');
      const count = counts.get(fragment) ?? 0;
      counts.set(fragment, count + 1);
      return count === 0 ? fragment : `${fragment}-${count}`;
    });
  const anchors = text.matchAll(/<a (?:id|name)="([^"]+)"/g).map(([, name = '']) => name);
  return new Set([...headings, ...anchors]);
}

/** Those of a document that lead to no file or folder; `path` is relative to `root`. */
export function brokenLinks(root: string, path: string, text: string): string[] {
  return relativeLinks(text).filter((link) => !existsSync(join(root, normalize(join(dirname(path), link)))));
}
