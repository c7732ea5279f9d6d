import assert from 'node:assert/strict';
import { filesBelow, readSource, withoutComments } from './source-file.ts';
import { isWithin, WORKSPACES } from './zones.ts';

const FOLDERS = ['agent', 'apis', 'bin', 'build', 'cli', 'console', 'controller', 'lib'];
const TESTS = Object.values(WORKSPACES).map((folder) => `${folder}/test`);

const PRODUCT = filesBelow('.').filter(
  (path) =>
    path.endsWith('.ts') &&
    !path.endsWith('.test.ts') &&
    FOLDERS.some((folder) => isWithin(folder, path)) &&
    !TESTS.some((folder) => isWithin(folder, path)),
);

/** Formatting puts declarations at the start of a line. */
const DECLARED =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:function\*?|class|interface|type|const|let) (\w+)/gm;
/** A list of names without `from`, which would be another file's. */
const LISTED = /^export (?:type )?\{([^}]*)\};/gm;

function exportsOf(text: string): string[] {
  const code = withoutComments(text);
  const listed = [...code.matchAll(LISTED)].flatMap(([, names = '']) =>
    names.split(',').map((name) =>
      name
        .replace(/^.* as /, '')
        .replace('type ', '')
        .trim(),
    ),
  );
  return [...code.matchAll(DECLARED)].map(([, name = '']) => name).concat(listed);
}

/** Overloads are one export. */
function exportedTwice(sources: Readonly<Record<string, string>>): string[] {
  const all = Object.entries(sources).flatMap(([path, text]) =>
    [...new Set(exportsOf(text))].map((name) => ({ name, path })),
  );
  return [...Map.groupBy(all, ({ name }) => name)]
    .filter(([, found]) => found.length > 1)
    .map(([name, found]) => `${name}: ${found.map(({ path }) => path).join(', ')}`);
}

describe('exported names', () => {
  it('are those of one file of the product each', () => {
    const sources = Object.fromEntries(PRODUCT.map((path) => [path, readSource(path)]));
    const count = Object.values(sources).flatMap(exportsOf).length;
    assert.ok(count > 3_000, `${count}`);
    assert.deepEqual(exportedTwice(sources), []);
  });

  it('and an export is found in every form', () => {
    const text = [
      'export function a(): void;',
      'export function a(): void {}',
      'export async function b(): Promise<void> {}',
      'export async function* c(): AsyncGenerator<void> {}',
      'export abstract class D {}',
      'export interface E {}',
      'export type F = string;',
      'export const g = 1;',
      'const inner = 1;',
      '// export const comment = 1;',
      "export { other } from './other.ts';",
      'const local = 1;',
      'export { local, inner as h };',
      'export type { I };',
    ].join('\n');
    assert.deepEqual(exportsOf(text), ['a', 'a', 'b', 'c', 'D', 'E', 'F', 'g', 'local', 'h', 'I']);
    assert.deepEqual(exportedTwice({ 'x.ts': text }), []);
    assert.deepEqual(exportedTwice({ 'x.ts': 'export const g = 1;', 'y.ts': 'export type g = 1;' }), [
      'g: x.ts, y.ts',
    ]);
  });
});
