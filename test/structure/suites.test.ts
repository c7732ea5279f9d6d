import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { relative } from 'node:path';
import { filesBelow, ROOT, readSource } from './source-file.ts';

const FOLDERS = ['agent', 'apis', 'build', 'cli', 'console', 'controller', 'lib', 'perf', 'test'];

describe('suites of tests', () => {
  it('have every test file', () => {
    const patterns = readSource('test/run.ts').match(/(?<=')[^'\n]*\*\*[^'\n]*\.test\.ts(?=')/g) ?? [];
    assert.ok(patterns.length > 10);
    const run = new Set(patterns.flatMap((pattern) => globSync(pattern, { cwd: ROOT })));
    const files = FOLDERS.flatMap((folder) => filesBelow(folder)).filter((path) => path.endsWith('.test.ts'));
    assert.deepEqual(
      files.filter((path) => !run.has(path)),
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
