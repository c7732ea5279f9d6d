import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { MOST_BUNDLE, MOST_PART, pathPart, SupportBundle } from './bundle.ts';

const run = promisify(execFile);

describe('support bundle', function () {
  this.timeout(60_000);
  let folder: string;
  let path: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-bundle-'));
    path = join(folder, 'bundle.tar.gz');
  });
  afterEach(() => rm(folder, { recursive: true }));

  const begun = () => new SupportBundle(path, { version: '0.1.0', now: Date.UTC(2026, 0, 2) });
  const unpack = async (): Promise<(name: string) => Promise<string>> => {
    await run('tar', ['-xzf', path, '-C', folder]);
    return (name) => readFile(join(folder, 'bundle', name), 'utf8');
  };

  it('is a tar.gz file for its owner, with a manifest', async () => {
    const bundle = begun();
    await Promise.all([
      bundle.addText('a/one.txt', 'one\n'),
      bundle.addText('a/empty.txt', ''),
      bundle.addValue('two.json', { two: 2 }),
      bundle.addLines('three.jsonl', [1, { b: 2 }]),
    ]);
    bundle.missing('b', 'no answer');
    const { bytes } = await bundle.close();
    const { size, mode } = await stat(path);
    assert.deepEqual([size, mode & 0o777], [bytes, 0o600]);
    const read = await unpack();
    assert.equal(await read('a/one.txt'), 'one\n');
    assert.equal(await read('a/empty.txt'), '');
    assert.deepEqual(JSON.parse(await read('two.json')), { two: 2 });
    assert.equal(await read('three.jsonl'), '1\n{"b":2}\n');
    const manifest = JSON.parse(await read('manifest.json'));
    assert.deepEqual(
      manifest.parts.map(({ name, bytes: of }: { name: string; bytes: number }) => [name, of]),
      [
        ['a/empty.txt', 0],
        ['a/one.txt', 4],
        ['three.jsonl', 10],
        ['two.json', 14],
      ],
    );
    assert.deepEqual(manifest.missing, [{ what: 'b', why: 'no answer' }]);
  });

  it('cuts a part that is too long, at a line', async () => {
    const bundle = begun();
    await bundle.addText('long.txt', 'line\n'.repeat(MOST_PART / 4));
    const { parts } = await bundle.close();
    assert.deepEqual(parts, [{ name: 'long.txt', bytes: MOST_PART - (MOST_PART % 5), isCut: true }]);
    assert.ok((await (await unpack())('long.txt')).endsWith('\nline\n'));
  });

  it('stays below its limit with what cannot be compressed, and says what it left out', async () => {
    const bundle = begun();
    for (let i = 0; i < 10; i++) await bundle.addText(`${i}`, randomBytes(MOST_PART / 2).toString('latin1'));
    const { bytes, missing, parts } = await bundle.close();
    assert.ok(bytes <= MOST_BUNDLE && (await stat(path)).size === bytes, String(bytes));
    assert.ok(parts.length >= 5 && missing.length >= 1 && parts.length + missing.length === 10);
    assert.match(missing[0]?.why ?? '', /no room/);
    await unpack();
  });

  it('replaces no file, and says when it cannot be written', async () => {
    await begun().close();
    const second = begun();
    await assert.rejects(second.addText('a', 'b'), /EEXIST/);
    await assert.rejects(second.close(), /EEXIST/);
  });

  it('has plain names for objects of any name', () => {
    assert.equal(pathPart('worker-1.example'), 'worker-1.example');
    for (const name of ['../../etc', '..', 'a/b', 'x'.repeat(253), 'a b']) {
      const part = pathPart(name);
      assert.match(part, /^[\w-][\w.-]{0,39}$/);
      assert.equal(part.startsWith('.'), false);
    }
    assert.notEqual(pathPart(`${'x'.repeat(250)}a`), pathPart(`${'x'.repeat(250)}b`));
  });
});
