import assert from 'node:assert/strict';
import { existsSync, globSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { filesBelow, ROOT, readSource } from './source-file.ts';

const FOLDERS = ['agent', 'apis', 'build', 'cli', 'console', 'controller', 'lib', 'perf', 'test'];

describe('suites of tests', () => {
  it('have every test file', () => {
    const patterns = readSource('test/run.ts').match(/(?<=')[^'\n]*\*[^'\n]*\.test\.ts(?=')/g) ?? [];
    assert.ok(patterns.length > 10);
    const started = patterns.flatMap((pattern) => globSync(pattern, { cwd: ROOT }));
    // Files that share a cluster are imported by the one that is named like their folder.
    const imported = started.flatMap((path) =>
      [...readSource(path).matchAll(/^import '(\..*\.test\.ts)';$/gm)].map(([, other = '']) =>
        join(dirname(path), other),
      ),
    );
    const run = new Set([...started, ...imported]);
    const files = FOLDERS.flatMap((folder) => filesBelow(folder)).filter((path) => path.endsWith('.test.ts'));
    assert.deepEqual(
      files.filter((path) => !run.has(path)),
      [],
    );
  });

  it('treat none but existing files in a way of their own', () => {
    const named = readSource('test/run.ts').match(/(?<=')\w[\w./-]*\.ts(?=')/g) ?? [];
    assert.ok(named.length > 8, `${named.length}`);
    assert.deepEqual(
      named.filter((path) => !existsSync(join(ROOT, path))),
      [],
    );
  });

  it('name every campaign in test/README.md', () => {
    const campaigns = ['build', 'test']
      .flatMap((folder) => filesBelow(folder))
      .filter((path) => path.endsWith('.long.ts'));
    assert.ok(campaigns.length > 30, `${campaigns.length}`);
    const readme = readSource('test/README.md');
    assert.deepEqual(
      campaigns.filter((path) => !readme.includes(`](${relative('test', path)})`)),
      [],
    );
  });
});
