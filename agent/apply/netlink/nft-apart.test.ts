import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isCrash, runApart } from './nft-apart.ts';

describe('a process of its own for nft', () => {
  const { execPath } = process;
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-apart-'));
  });
  afterEach(() => {
    process.execPath = execPath;
  });
  after(() => rm(folder, { recursive: true }));

  /** The error where these commands of sh run in its place. */
  async function errorOf(commands: string): Promise<unknown> {
    process.execPath = join(folder, 'program');
    await writeFile(process.execPath, `#!/bin/sh\n${commands}\n`, { mode: 0o700 });
    return await runApart('list tables').then(assert.fail, (error: unknown) => error);
  }

  for (const signal of ['SEGV', 'ABRT', 'BUS'])
    it(`that ends with SIG${signal} is a crash of libnftables`, async () => {
      assert.equal(isCrash(await errorOf(`ulimit -c 0; kill -${signal} $$`)), true);
    });

  it('that somebody or the kernel kills is none', async () => {
    for (const signal of ['KILL', 'TERM']) {
      const error = await errorOf(`kill -${signal} $$`);
      assert.equal(isCrash(error), false);
      assert.match(String(error), new RegExp(`ended with SIG${signal}`));
    }
    assert.match(String(await errorOf('echo why >&2; exit 7')), /ended with status 7: why/);
  });
});
