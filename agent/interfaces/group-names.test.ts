import assert from 'node:assert/strict';
import { chmod, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { withGroupNames, writeGroupNames } from './group-names.ts';

const SHIPPED = '# device group names\n0\tdefault\n';
const GROUPS = { pods: 8, clusternet: 9 };
const BLOCK =
  '# nodewall: begin (kept by nodewall; do not edit these lines)\n8\tpods\n9\tclusternet\n# nodewall: end\n';

describe('withGroupNames', () => {
  it('adds a block, keeps it, and removes it again', () => {
    const { text, conflicts } = withGroupNames(SHIPPED, GROUPS);
    assert.equal(text, SHIPPED + BLOCK);
    assert.deepEqual(conflicts, []);
    assert.equal(withGroupNames(text, GROUPS).text, text);
    assert.equal(withGroupNames(text, null).text, SHIPPED);
  });
  it('follows the configuration, pods and clusternet first', () => {
    const { text } = withGroupNames(SHIPPED + BLOCK, { clusternet: 9, pods: 20, lan: 5 });
    assert.match(text, /\n20\tpods\n9\tclusternet\n5\tlan\n# nodewall: end\n$/);
    assert.equal(withGroupNames(text, GROUPS).text, SHIPPED + BLOCK);
  });
  it('leaves foreign lines as they are, in any place', () => {
    const after = `${SHIPPED}${BLOCK}7\tdmz`;
    assert.equal(withGroupNames(after, null).text, `${SHIPPED}7\tdmz`);
    assert.equal(withGroupNames(after, GROUPS).text, `${SHIPPED}7\tdmz\n${BLOCK}`);
  });
  it('writes no name that exists already, in any form of iproute2', () => {
    assert.equal(
      withGroupNames('0x8 pods\n 9\tclusternet # ours\n', GROUPS).text,
      '0x8 pods\n 9\tclusternet # ours\n',
    );
  });
  for (const line of ['8 dmz', '0x8 dmz', '12 pods']) {
    it(`leaves ${line} and reports a conflict`, () => {
      const { text, conflicts } = withGroupNames(`${line}\n`, GROUPS);
      assert.match(text, /^.*\n.*begin.*\n9\tclusternet\n.*end\n$/);
      assert.equal(conflicts.length, 1);
      assert.match(conflicts[0] ?? '', /^8 pods is not written: the file already has (8 dmz|12 pods)$/);
    });
  }
  it('a block without its end line removes no foreign lines', () => {
    const broken = `${BLOCK.replace('# nodewall: end\n', '')}7\tdmz\n`;
    assert.equal(withGroupNames(broken, null).text, '8\tpods\n9\tclusternet\n7\tdmz\n');
  });
});

describe('writeGroupNames', () => {
  let folder: string;
  let path: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-names-'));
    path = join(folder, 'group');
  });
  afterEach(() => rm(folder, { recursive: true }));

  it('keeps the file mode, leaves no temporary file, and writes only changes', async () => {
    await writeFile(path, SHIPPED);
    await chmod(path, 0o604);
    await writeGroupNames(path, GROUPS);
    assert.equal(await readFile(path, 'utf8'), SHIPPED + BLOCK);
    const { mode, ino } = await stat(path);
    assert.equal(mode & 0o777, 0o604);
    await writeGroupNames(path, GROUPS);
    assert.equal((await stat(path)).ino, ino);
    assert.deepEqual(await readdir(folder), ['group']);
  });
  it('creates a missing file, with the names that iproute2 needs', async () => {
    await writeGroupNames(path, null);
    assert.deepEqual(await readdir(folder), []);
    await writeGroupNames(path, GROUPS);
    assert.equal(await readFile(path, 'utf8'), `0\tdefault\n${BLOCK}`);
  });
  it('writes through a symbolic link', async () => {
    await writeFile(join(folder, 'real'), SHIPPED);
    await symlink('real', path);
    await writeGroupNames(path, GROUPS);
    assert.equal(await readFile(join(folder, 'real'), 'utf8'), SHIPPED + BLOCK);
    assert.deepEqual((await readdir(folder)).sort(), ['group', 'real']);
  });
  it('rejects if the directory is missing', () =>
    assert.rejects(writeGroupNames(join(folder, 'no', 'group'), GROUPS), /ENOENT/));
});
