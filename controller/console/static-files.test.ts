import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { StaticFiles } from './static-files.ts';

describe('files of the console', () => {
  let folder = '';
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-static-'));
    await writeFile(join(folder, 'index.html'), '<!doctype html>');
    await writeFile(join(folder, 'app-B3x9Qk2w.js'), 'plain');
    await writeFile(join(folder, 'app-B3x9Qk2w.js.br'), 'brotli');
    await mkdir(join(folder, 'inner'));
    await writeFile(join(folder, 'inner', 'secret.txt'), 'secret');
    await writeFile(join(folder, '.hidden'), 'secret');
    await symlink('/etc/passwd', join(folder, 'passwd.txt'));
  });
  after(() => rm(folder, { recursive: true }));

  it('are sent in the best form that the browser accepts', async () => {
    const files = new StaticFiles(folder);
    const sent = async (accepts: string) => {
      const found = await files.file('app-B3x9Qk2w.js', accepts);
      return [found?.headers['content-encoding'], found?.bytes] as const;
    };
    for (const accepts of ['gzip, deflate, br', 'br', 'br;q=1.0, gzip;q=0.5'])
      assert.deepEqual(await sent(accepts), ['br', Buffer.from('brotli')], accepts);
    for (const accepts of ['gzip', 'gzip, br;q=0']) {
      const [encoding, bytes] = await sent(accepts);
      assert.deepEqual([encoding, gunzipSync(bytes ?? '').toString()], ['gzip', 'plain'], accepts);
    }
    for (const accepts of ['', 'identity', 'gzip;q=0', 'xgzip', 'zbr'])
      assert.deepEqual(await sent(accepts), [undefined, Buffer.from('plain')], accepts);
  });

  it('are those of the folder itself, whatever the name', async () => {
    const files = new StaticFiles(folder);
    assert.equal((await files.file('index.html', ''))?.headers['cache-control'], 'no-store');
    const others = [
      'inner/secret.txt',
      'inner',
      '../x',
      '..',
      '.',
      '',
      '.hidden',
      'passwd.txt',
      'app-B3x9Qk2w.js.br',
      '__proto__',
      'constructor',
      'index.html\0',
    ];
    for (const name of others) assert.equal(await files.file(name, ''), null, name);
  });

  it('are looked for again where there was no folder', async () => {
    const later = join(folder, 'later');
    const files = new StaticFiles(later);
    await assert.rejects(files.file('index.html', ''), { code: 'ENOENT' });
    await mkdir(later);
    await writeFile(join(later, 'index.html'), 'now');
    assert.equal((await files.file('index.html', ''))?.bytes.toString(), 'now');
  });
});
