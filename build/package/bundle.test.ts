/** The program as it is installed (build/package/bundle.ts). */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { run } from '../../test/cli/command.ts';
import { filesBelow, ROOT, type Scratch, scratchFolder } from '../programs/folder.ts';
import { installedProgram } from './bundle.ts';

describe('the bundle', function () {
  this.timeout(60_000);
  let scratch: Scratch;
  let program: string;
  before(async () => {
    scratch = await scratchFolder('nodewall-bundle-');
    program = await installedProgram(join(scratch.path, 'installed'));
  });
  after(() => scratch?.remove());

  const inBundle = (): string[] => {
    const root = join(scratch.path, 'installed');
    return readdirSync(root, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => relative(root, join(parentPath, name)));
  };

  it('runs', async () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    const { status, stdout } = await run([program, '--version']);
    assert.deepEqual([status, stdout], [0, `${version}\n`]);
  });

  it('is made by one file: an image has no other of build/', () => {
    const text = readFileSync(join(ROOT, 'build/package/bundle.ts'), 'utf8');
    assert.doesNotMatch(text, /from '\.{1,2}\//);
  });

  it('has a file of its own for whatever is started as a process or thread', () => {
    const sources = ['agent', 'controller', 'lib', 'cli'].flatMap((folder) => filesBelow(`${folder}/`, ROOT));
    const expected = sources
      .filter((path) => /-(child|worker)\.ts$/.test(path))
      .map((path) => path.replace(/\.ts$/, '.cjs'));
    assert.ok(expected.length >= 5, expected.join(' '));
    const found = inBundle().filter((path) => /^(agent|controller|lib)\/.*\.cjs$/.test(path));
    assert.deepEqual(found.sort(), expected.sort());
  });

  it('has the licence of each package in it, and nothing else of them', () => {
    const documents = inBundle().filter((path) => path.startsWith('node_modules/'));
    const packages = documents.filter((path) => path.endsWith('/package.json'));
    assert.ok(packages.some((path) => path === 'node_modules/yaml/package.json'));
    for (const path of packages) {
      const folder = join(scratch.path, 'installed', path, '..');
      assert.ok(
        readdirSync(folder).some((name) => /licen[cs]e/i.test(name)),
        path,
      );
    }
    const others = documents.filter(
      (path) => !/\/(package\.json|(licen[cs]e|notice|copying)[^/]*)$/i.test(path),
    );
    assert.deepEqual(others, []);
  });
});
