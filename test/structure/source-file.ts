import { readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { ROOT } from '../../build/programs/folder.ts';

export { filesBelow, foldersIn, ROOT } from '../../build/programs/folder.ts';

export function readSource(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

/**
 * What a file imports: a path from the root, `node:…`, a package's name, or null where it can't be
 * told before it runs.
 */
export function importsOf(path: string, text: string): (string | null)[] {
  return specifiers(text).map((specifier) => {
    if (specifier === null || !specifier.startsWith('.')) return packageName(specifier);
    return relative(ROOT, resolve(ROOT, path, '..', specifier));
  });
}

function packageName(specifier: string | null): string | null {
  if (specifier === null || specifier.startsWith('node:')) return specifier;
  const [scope = '', name] = specifier.split('/');
  return scope.startsWith('@') ? `${scope}/${name}` : scope;
}

const STATIC = /^(?:import|export)\s(?:[^'";]*?\sfrom\s*)?['"]([^'"]+)['"]/gm;
const DYNAMIC = /\b(?:import|require)\(\s*(?:['"]([^'"]+)['"]\s*[,)])?/g;

/**
 * What stands in import statements, re-exports and calls of import() and require(); null is a call
 * without a plain string.
 */
export function specifiers(text: string): (string | null)[] {
  const code = withoutComments(text);
  return [...code.matchAll(STATIC), ...code.matchAll(DYNAMIC)].map(([, name]) => name ?? null);
}

/** Comments that take whole lines, and what stands behind code on a line. */
export function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/(^|\s)\/\/.*$/gm, '$1');
}
