import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { lstat, mkdtemp, readdir, readFile, readlink, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bootFolder, removeBootFiles } from './boot-folder.ts';

describe('the boot folder', () => {
  let directory: string;
  const folder = (...names: string[]): string => join(directory, 'boot', ...names);
  const identity = (): string => join(directory, 'identity');
  const write = (files: Record<string, string>): Promise<void> =>
    bootFolder(directory, [identity(), '/nonexistent']).write(files);
  /** As the unit does. */
  const isIntact = (): boolean =>
    spawnSync('sha256sum', ['--check', '--strict', '--quiet', 'SHA256SUMS'], { cwd: folder('current') })
      .status === 0;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'nodewall-boot-'));
    await writeFile(identity(), 'machine 1\n');
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  it('has the files written last, and their digests', async () => {
    for (const text of ['one\n', 'two, Ä\n', '']) {
      await write({ 'rules.nft': text, 'minimal.nft': 'minimal\n' });
      assert.equal(await readFile(folder('current', 'rules.nft'), 'utf8'), text);
      assert.equal(isIntact(), true);
    }
    const sums = await readFile(folder('current', 'SHA256SUMS'), 'utf8');
    assert.deepEqual(
      sums.split('\n').map((line) => line.slice(66)),
      ['rules.nft', identity(), ''],
    );
  });

  it('is readable by its owner only', async () => {
    await write({ 'rules.nft': 'rules' });
    assert.equal((await stat(folder())).mode & 0o777, 0o700);
    for (const name of await readdir(folder('current')))
      assert.equal((await lstat(folder('current', name))).mode & 0o777, 0o600, name);
  });

  it('says when a file is damaged, and when it is of another machine', async () => {
    await write({ 'rules.nft': 'rules\n', 'minimal.nft': 'minimal\n' });
    await writeFile(folder('current', 'minimal.nft'), '');
    assert.equal(isIntact(), true, 'rules count without the minimal ones');
    await writeFile(folder('current', 'rules.nft'), 'rule');
    assert.equal(isIntact(), false);
    await write({ 'rules.nft': 'rules\n' });
    assert.equal(isIntact(), true);
    await writeFile(identity(), 'machine 2\n');
    assert.equal(isIntact(), false);
  });

  it('has the old files whole until the new ones are', async () => {
    await write({ 'rules.nft': 'old' });
    const old = await readlink(folder('current'));
    // A write that was cut off leaves this behind.
    const next = old === 'a' ? 'b' : 'a';
    await rm(folder(next), { recursive: true, force: true });
    await writeFile(folder(next), 'no folder');
    await writeFile(folder('current.new'), 'no link');
    assert.equal(await readFile(folder('current', 'rules.nft'), 'utf8'), 'old');
    await write({ 'rules.nft': 'new' });
    assert.equal(await readFile(folder('current', 'rules.nft'), 'utf8'), 'new');
    assert.equal(isIntact(), true);
  });

  it('is gone when removed, also if there was none', async () => {
    await removeBootFiles(directory);
    await write({ 'rules.nft': 'rules' });
    await removeBootFiles(directory);
    await assert.rejects(lstat(folder()), { code: 'ENOENT' });
  });
});
