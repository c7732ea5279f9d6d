import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StateFileError, stateFile } from './state-file.ts';

const BODY = '{"type":"node","node":"cp-1"}\nzweite Zeile: Ä, 🧱\n';
const MODULE = join(import.meta.dirname, 'state-file.ts');

/** Runs a script with a file system of its own at /mnt, in a mount namespace that ends with it. */
function onDisk(options: string, script: string): { readonly stdout: string; readonly stderr: string } {
  const mounted = `mount -t tmpfs -o ${options} tmpfs /mnt && exec "$0" --input-type=module-typescript -e "$1"`;
  const argv = ['--mount', 'sh', '-c', mounted, process.execPath, script];
  return spawnSync('unshare', argv, { encoding: 'utf8' });
}

describe('a state file', () => {
  let directory: string;
  const path = () => join(directory, 'state');
  const file = () => stateFile(directory, 'state');
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'nodewall-state-'));
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  it('returns the written content, in another process too', async () => {
    assert.equal(await file().read(), null);
    for (const body of ['', BODY, 'x'.repeat(1_000_000), '\n', BODY]) {
      await file().write(body);
      assert.equal(await file().read(), body);
    }
    assert.deepEqual(await readdir(directory), ['state'], 'nothing is left beside it');
  });

  it('is readable by its owner only, as is its directory', async () => {
    const below = join(directory, 'a', 'b');
    await stateFile(below, 'state').write(BODY);
    assert.equal((await stat(join(below, 'state'))).mode & 0o777, 0o600);
    assert.equal((await stat(below)).mode & 0o777, 0o700);
    // The mode is also set on a file that was readable by others.
    await chmod(join(below, 'state'), 0o644);
    await stateFile(below, 'state').write(BODY);
    assert.equal((await stat(join(below, 'state'))).mode & 0o777, 0o600);
  });

  it('is rejected if it is cut off at any byte', async () => {
    await file().write(BODY);
    const whole = await readFile(path());
    for (let length = 0; length < whole.length; length++) {
      await writeFile(path(), whole.subarray(0, length));
      await assert.rejects(file().read(), StateFileError, `cut at ${length}`);
    }
    await writeFile(path(), whole);
    assert.equal(await file().read(), BODY);
  });

  it('is rejected if any byte differs or is added', async () => {
    await file().write(BODY);
    const whole = await readFile(path());
    for (let at = 0; at < whole.length; at++) {
      const damaged = Buffer.from(whole);
      damaged[at] = (damaged[at] ?? 0) ^ 1;
      await writeFile(path(), damaged);
      await assert.rejects(file().read(), StateFileError, `byte ${at}`);
    }
    await writeFile(path(), Buffer.concat([whole, Buffer.from('\n')]));
    await assert.rejects(file().read(), StateFileError);
    // A later write repairs the file.
    await file().write(BODY);
    assert.equal(await file().read(), BODY);
  });

  it('is rejected if it has another version', async () => {
    await file().write(BODY);
    const text = await readFile(path(), 'utf8');
    await writeFile(path(), text.replace('nodewall-state/1', 'nodewall-state/2'));
    await assert.rejects(file().read(), /damaged or of another version; remove it/);
  });

  it('reports a path that is not a file', async () => {
    await mkdir(path());
    await assert.rejects(
      file().read(),
      (error) => error instanceof StateFileError && error.message.includes(path()),
    );
    await assert.rejects(file().write(BODY));
    assert.deepEqual(await readdir(directory), ['state'], 'nothing is left beside it');
  });

  it('reports a parent that is not a directory', async () => {
    await writeFile(path(), 'x');
    const below = stateFile(join(directory, 'state'), 'state');
    await assert.rejects(below.write(BODY));
    await assert.rejects(below.read(), StateFileError);
  });

  it('keeps the old content on a full disk', async () => {
    const script = `
      import { stateFile } from ${JSON.stringify(MODULE)};
      const file = stateFile('/mnt', 'state');
      await file.write('old');
      const said = await file.write('x'.repeat(1_000_000)).then(() => 'written', (error) => error.code);
      const { readdirSync } = await import('node:fs');
      console.log(said, await file.read(), readdirSync('/mnt').join(' '));`;
    const { stdout, stderr } = onDisk('size=64k', script);
    assert.equal(stdout, 'ENOSPC old state\n', stderr);
  });

  it('keeps the old content in a read-only directory', async () => {
    const script = `
      import { stateFile } from ${JSON.stringify(MODULE)};
      const { execFileSync } = await import('node:child_process');
      const file = stateFile('/mnt', 'state');
      await file.write('old');
      execFileSync('mount', ['-o', 'remount,ro', '/mnt']);
      const said = await file.write('new').then(() => 'written', (error) => error.code);
      console.log(said, await file.read());`;
    const { stdout, stderr } = onDisk('rw', script);
    assert.equal(stdout, 'EROFS old\n', stderr);
  });

  it('has a complete content whenever its writer is killed', async function () {
    this.timeout(60_000);
    const script = `
      import { stateFile } from ${JSON.stringify(MODULE)};
      const file = stateFile(${JSON.stringify(directory)}, 'state');
      for (let i = 0; ; i++) { await file.write(String(i).repeat(50_000)); if (i === 0) console.log('first'); }`;
    for (let round = 0; round < 6; round++) {
      const writer = spawn(process.execPath, ['--input-type=module-typescript', '-e', script]);
      await once(writer.stdout, 'data');
      await new Promise((resolve) => setTimeout(resolve, 3 * round));
      const gone = once(writer, 'exit');
      writer.kill('SIGKILL');
      await gone;
      const body = await file().read();
      assert.match(body ?? '', /^(\d+?)\1*$/);
    }
    await file().write(BODY);
    assert.equal(await file().read(), BODY);
  });
});
