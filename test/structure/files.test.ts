import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join, matchesGlob, relative } from 'node:path';
import { filesBelow, foldersIn, ROOT } from './source-file.ts';
import { isWithin, WORKSPACES } from './zones.ts';

/** Folders of the stages' parents whose own folders each have a README. */
const STAGE_PARENTS = ['build', 'controller', 'agent', 'lib'];
/** Its index.md is the index of all documents. */
const INDEXES: Readonly<Record<string, string>> = { docs: 'docs/index.md' };
/** Folders whose READMEs name all files. */
const LISTED = ['agent', 'apis', 'build', 'cli', 'console', 'controller', 'lib', 'perf', 'test'];
/** Folders of the product, tests out. */
const PRODUCT = ['agent', 'apis', 'bin', 'build', 'cli', 'console', 'controller', 'lib'];
const RELATIVE = /(?:\/\*\*\s*(?:\*\s*)?|^\s*\/\/ )(?:What|Who|Of) /m;
/** Only what starts the program. */
const WITHOUT_README = ['bin'];
const CODE = /\.(ts|js|mjs|cjs|py|go|c|cc|h|pl|rb)$/;
/** Tests are named for their source; test/README.md has the long ones (suites.test.ts). */
const SOURCE = /(?<!\.(?:test|long))\.(ts|c|cc)$/;
/** A file name with a star and something else. */
const PATTERN = /(?:\w[^/]*\*|\*[^/]*\w+)[^/]*\.\w+$/;
/** A line of comment alone; code is biome's business. */
const COMMENT = /^\s*(\/\/|\/?\*)/;
/** Columns of a comment. */
const WIDTH = 100;
/** Lines of code; a test is beside one source, and may have more. */
const LONGEST = 450;
const LONGEST_TEST = 720;
const VAGUE = /(^|[-_.])(utils?|helpers?|common|misc|managers?)([-_.]|$)/i;

describe('files', () => {
  const files = filesBelow('.');

  it('have a README in every top-level folder and every stage', () => {
    const folders = [
      ...foldersIn('.'),
      ...STAGE_PARENTS.flatMap((parent) => foldersIn(parent).map((name) => `${parent}/${name}`)),
    ];
    // git keeps no empty folders.
    const wanted = folders.filter(
      (folder) => !WITHOUT_README.includes(folder) && files.some((path) => isWithin(folder, path)),
    );
    assert.deepEqual(
      wanted.filter((folder) => !files.includes(INDEXES[folder] ?? `${folder}/README.md`)),
      [],
    );
  });

  it('are named in the README of their folder, or of the one above', () => {
    const named = files.filter(
      (path) => SOURCE.test(path) && LISTED.some((folder) => isWithin(folder, path)),
    );
    assert.ok(named.length > 1_100, `${named.length}`);
    assert.deepEqual(
      named.filter((path) => !isNamed(path, files)),
      [],
    );
    for (const unnamed of [
      'agent/run/other.ts',
      'agent/apply/netlink/other.ts',
      'agent/apply/plan/enforcer.ts',
    ])
      assert.ok(!isNamed(unnamed, files), unnamed);
    assert.ok(isNamed('agent/apply/netlink/encode-other.ts', files));
  });

  it('have names for their content', () => {
    assert.deepEqual(
      files.filter((path) => path.split('/').some((part) => VAGUE.test(part))),
      [],
    );
    for (const vague of ['utils.ts', 'test-helpers.ts', 'common', 'PolicyManager.ts', 'a_misc.c']) {
      assert.ok(VAGUE.test(vague.replace(/(?<=[a-z])(?=[A-Z])/g, '-')), vague);
    }
  });

  it('have comments of at most 100 columns', () => {
    const long = files
      .filter((path) => path.endsWith('.ts'))
      .flatMap((path) =>
        readFileSync(join(ROOT, path), 'utf8')
          .split('\n')
          .flatMap((line, index) =>
            line.length > WIDTH && COMMENT.test(line) ? [`${path}:${index + 1}`] : [],
          ),
      );
    assert.deepEqual(long, []);
  });

  it(`have at most ${LONGEST} lines of code, tests ${LONGEST_TEST}`, () => {
    const code = files.filter((path) => CODE.test(path));
    assert.ok(code.length > 1_500, `${code.length}`);
    const long = code.flatMap((path) => {
      const lines = readFileSync(join(ROOT, path), 'utf8').split('\n').length - 1;
      return lines > (path.endsWith('.test.ts') ? LONGEST_TEST : LONGEST) ? [`${path}: ${lines}`] : [];
    });
    assert.deepEqual(long, []);
  });

  it('open no comment with What, Who or Of', () => {
    const product = files.filter(
      (path) =>
        CODE.test(path) && !path.endsWith('.test.ts') && PRODUCT.some((folder) => isWithin(folder, path)),
    );
    assert.ok(product.length > 500, `${product.length}`);
    const found = product.filter((path) => RELATIVE.test(readFileSync(join(ROOT, path), 'utf8')));
    assert.deepEqual(found, []);
  });

  it('spread no object literal into another: properties have a line each', () => {
    const spread = files.filter((path) => {
      if (!CODE.test(path)) return false;
      return /^\s*\.\.\.\{ ?[^}]*\},?$/m.test(readFileSync(join(ROOT, path), 'utf8'));
    });
    assert.deepEqual(spread, []);
  });

  it('hold no code below deploy and docs', () => {
    const found = files.filter((path) => ['deploy', 'docs'].some((folder) => isWithin(folder, path)));
    assert.deepEqual(
      found.filter((path) => CODE.test(path)),
      [],
    );
  });

  it('are each a source, or a test that has its name, and a topic where there are several', () => {
    const tests = files.filter(
      // Those in build may be of all that a folder makes.
      (path) => path.endsWith('.test.ts') && !['build', 'test'].some((folder) => isWithin(folder, path)),
    );
    const lone = tests.filter((path) => !files.includes(path.replace(/(?:\.[\w-]+)?\.test\.ts$/, '.ts')));
    // The workspaces' tests have a folder, and some are of the whole.
    const workspaces = Object.values(WORKSPACES).map((folder) => `${folder}/test`);
    assert.deepEqual(
      lone.filter((path) => !workspaces.some((folder) => isWithin(folder, path))),
      [],
    );
  });
});

/**
 * Whether a README names the file by its path from there, or by a pattern for a part of its name
 * (`netlink/encode-*.ts`). The name of its folder says nothing of the file.
 */
function isNamed(path: string, files: readonly string[]): boolean {
  let folder = dirname(path);
  while (!files.includes(`${folder}/README.md`)) folder = dirname(folder);
  const readme = readFileSync(join(ROOT, folder, 'README.md'), 'utf8');
  const below = relative(folder, path);
  const words = readme.split(/[\s`|(),:;]+/).map((word) => word.replace(/^\[|[\].]+$/g, ''));
  return words.some((word) => word === below || (PATTERN.test(word) && matchesGlob(below, word)));
}
