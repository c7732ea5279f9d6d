import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cached } from './cache.ts';
import { run } from './command.ts';

describe('the cache', () => {
  let home: string;
  const before = process.env.XDG_CACHE_HOME;
  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), 'nodewall-test-cache-'));
    process.env.XDG_CACHE_HOME = home;
  });
  afterEach(async () => {
    if (before === undefined) delete process.env.XDG_CACHE_HOME;
    else process.env.XDG_CACHE_HOME = before;
    await rm(home, { recursive: true });
  });
  const entries = async () =>
    (await readdir(join(home, 'nodewall'))).filter((name) => !name.endsWith('.lock')).sort();

  /** A process that makes a folder, adds a letter to `made` as it does, and says where it is. */
  const script = (making: string) => `
    import { cached } from '${join(import.meta.dirname, 'cache.ts')}';
    import { appendFile, readFile } from 'node:fs/promises';
    await appendFile('${join(home, 'started')}', 'x');
    console.log(await cached('thing', 'a', async (folder) => {
      await appendFile('${join(home, 'made')}', 'x');
      ${making}
    }));`;
  const node = (making: string) => [process.execPath, '--input-type=module', '-e', script(making)];

  it('makes each entry once, by the first caller', async () => {
    // Until all are there; and then long enough for each to see that the folder is not.
    const all = `while ((await readFile('${join(home, 'started')}')).length < 4);
      await new Promise((done) => setTimeout(done, 300));`;
    const makers = Array.from({ length: 4 }, () => run(node(all)));
    const folder = join(home, 'nodewall/thing-a');
    for (const { code, stdout } of await Promise.all(makers))
      assert.deepEqual([code, stdout], [0, `${folder}\n`]);
    assert.equal(await readFile(join(home, 'made'), 'utf8'), 'x');
    assert.equal(await cached('thing', 'a', () => assert.fail('it is there')), folder);
  });

  it('leaves no incomplete entry and no lock when the maker fails or is killed', async () => {
    await assert.rejects(
      cached('thing', 'a', async (folder) => {
        await writeFile(join(folder, 'part'), '');
        throw new Error('no more');
      }),
      /no more/,
    );
    assert.deepEqual(await entries(), []);
    const [program = '', ...args] = node("process.kill(process.pid, 'SIGKILL');");
    const [, signal] = await once(spawn(program, args), 'exit');
    assert.equal(signal, 'SIGKILL');
    await cached('thing', 'a', (folder) => writeFile(join(folder, 'whole'), ''));
    assert.deepEqual(await entries(), ['thing-a']);
    assert.deepEqual(await readdir(join(home, 'nodewall/thing-a')), ['whole']);
  });

  it('removes unused entries of its own kind', async () => {
    const old = new Date(Date.now() - 40 * 86_400_000);
    for (const name of ['thing-old', 'thing-used', 'other-old']) {
      const path = join(home, 'nodewall', name);
      await mkdir(path, { recursive: true });
      await utimes(path, old, old);
    }
    await cached('thing', 'used', () => assert.fail('it is there'));
    // Unpacked, it looks old itself.
    await cached('thing', 'new', (folder) => utimes(folder, old, old));
    assert.deepEqual(await entries(), ['other-old', 'thing-new', 'thing-used']);
  });
});
