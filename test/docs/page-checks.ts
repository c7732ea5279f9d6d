/**
 * The commands in the documents: a fence `console` holds lines `$ nodewall …`, each followed by
 * what it prints.
 */

import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fencesOf } from './markdown.ts';

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

/** A row of the tables of docs/security.md. */
interface SecurityClaim {
  /** 1-based, of the page. */
  readonly line: number;
  readonly says: string;
  /** Paths from the page of the files that hold it. */
  readonly heldBy: readonly string[];
}

const ROW = /^\| (can|can't) \|(.*)\|([^|]*)\|$/;

export function securityClaims(page: string): SecurityClaim[] {
  return page.split('\n').flatMap((text, index) => {
    const [, verb, what = '', heldBy = ''] = ROW.exec(text) ?? [];
    if (verb === undefined) return [];
    const links = [...heldBy.matchAll(/\]\(([^)#]+)\)/g)].map(([, path]) => path ?? '');
    const isLimit = verb === 'can' && heldBy.trim() === 'no test: a limit';
    return [{ line: index + 1, says: `${verb} ${what.trim()}`, heldBy: isLimit ? ['limit'] : links }];
  });
}

/** Whether mocha runs what the file says: tests, cases, or suites that a test describes. */
export function isTest(path: string, text: string): boolean {
  if (/\.(test|long)\.ts$/.test(path)) return /\b(it|describe|[a-z]+Suite)\(/.test(text);
  if (/\/test\/(cases|invalid)\/[a-z-]+\.md$/.test(path)) return true;
  return /^export function describe[A-Z]/m.test(text);
}

/** Columns of prose in Markdown. */
export const WIDTH = 120;
/** Headings, tables and blocks of code cannot be wrapped; a list's mark is no place to wrap at. */
const UNWRAPPED = /^\s*(#|\|| {4})/;
const MARK = /^\s*(?:(?:[-*>]|\d+\.) +)?/;

/** The 1-based lines of a Markdown text that are wider, and could be wrapped. */
export function wideLines(text: string): number[] {
  let isCode = false;
  return text.split('\n').flatMap((line, index) => {
    if (/^\s*(```|~~~)/.test(line)) isCode = !isCode;
    if (isCode || line.length <= WIDTH || UNWRAPPED.test(line)) return [];
    return line.replace(MARK, '').lastIndexOf(' ', WIDTH) > 0 ? [index + 1] : [];
  });
}

interface ConsoleCommand {
  /** 1-based line of the `$`. */
  readonly line: number;
  readonly args: readonly string[];
  /** Standard output, then standard error, as the document shows them. */
  readonly shown: string;
  /** Where the shown text stands in the document, in lines: [from, to). */
  readonly span: readonly [number, number];
}

/**
 * Every command of a document's console fences. A command may go on after a backslash at the end of
 * a line.
 */
export function consoleCommands(path: string, page: string): ConsoleCommand[] {
  return fencesOf(path, page, 'console').flatMap(({ line, text }) => {
    const parts = text.matchAll(/^\$ (?<command>(?:.*\\\n)*.*\n)(?<shown>(?:(?!\$ ).*\n)*)/gm);
    return [...parts].map(({ index, groups: { command = '', shown = '' } = {} }) => {
      const at = line + 1 + rows(text.slice(0, index));
      const from = at - 1 + rows(command);
      const args = words(command.replaceAll(/\\\n\s*/g, ''));
      return { line: at, args, shown, span: [from, from + rows(shown)] as const };
    });
  });
}

function rows(text: string): number {
  return text.split('\n').length - 1;
}

/** Words apart by blanks; single quotes hold a word together. No shell is asked. */
function words(command: string): string[] {
  return [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
}
