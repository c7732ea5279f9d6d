/** `npm run plugin`: every archive, twice, and the structure of those that cannot be run here. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { output } from '../programs/command.ts';
import { type Archive, krewManifest, makeArchive } from './archive.ts';
import { bundlePlugin, type PluginBundle } from './bundle.ts';
import { readPe } from './executable.ts';
import { CODE_SIGNATURE, readMachO } from './mach-o.ts';
import { PLATFORMS, type Platform, platformName } from './platforms.ts';

/** Bytes: of an archive. */
const MOST = 45_000_000;
/** Node.js runs a program in itself where the number after the sentinel is 1 (node_sea.cc). */
const SENTINEL = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2:';
/** A text of the program. */
const OF_PROGRAM = 'not in this program';

describe('the archives of the kubectl plugin', function () {
  this.timeout(3_600_000);
  let folder: string;
  let bundle: PluginBundle;
  const archives: Archive[] = [];

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-archives-'));
    bundle = await bundlePlugin();
    for (const platform of PLATFORMS) {
      archives.push(await makeArchive(platform, bundle, folder));
      const unpacked = join(folder, platformName(platform));
      await mkdir(unpacked);
      await output(['tar', '-xzf', join(folder, archives.at(-1)?.name ?? ''), '-C', unpacked]);
    }
  });
  after(() => rm(folder, { recursive: true, force: true }));

  const executable = (platform: Platform): Promise<Buffer> =>
    readFile(join(folder, platformName(platform), platform.executable));

  for (const platform of PLATFORMS) {
    const name = platformName(platform);

    it(`${name}: is small, and has the program, its licence and those of others`, async () => {
      const { size } = await stat(join(folder, `kubectl-nodewall-${name}.tar.gz`));
      assert.ok(size <= MOST, `${size} bytes`);
      const files = await readdir(join(folder, name));
      assert.deepEqual(files.sort(), ['LICENSE', 'LICENSE.third-party', platform.executable].sort());
      const licences = await readFile(join(folder, name, 'LICENSE.third-party'), 'utf8');
      for (const text of ['Node.js is licensed', '\n@kubernetes/client-node\n', '\nundici\n', '\nyaml\n'])
        assert.equal(licences.includes(text), text !== '\nundici\n', text);
      const file = await executable(platform);
      assert.ok(file.includes(`${SENTINEL}1`));
      assert.ok(file.includes(OF_PROGRAM));
    });

    it(`${name}: is the same when it is made again`, async () => {
      const again = join(folder, 'again');
      await mkdir(again, { recursive: true });
      const { sha256 } = await makeArchive(platform, bundle, again);
      assert.equal(sha256, archives.find((one) => one.platform === platform)?.sha256);
    });
  }

  for (const platform of PLATFORMS.filter(({ os }) => os === 'darwin'))
    it(`${platformName(platform)}: has segments in order, and a signature that fits each page`, async () => {
      const file = await executable(platform);
      const { cpu, segments, commands, commandsEnd, firstSection } = readMachO(file);
      assert.equal(cpu, platform.arch === 'arm64' ? 'arm64' : 'x86_64');
      assert.ok(commandsEnd <= firstSection);
      let fileEnd = 0;
      let memoryEnd = 0n;
      for (const { name, fileOffset, fileSize, address, memorySize } of segments) {
        assert.ok(fileOffset >= fileEnd || fileSize === 0, name);
        assert.ok(address >= memoryEnd && memorySize >= BigInt(fileSize), name);
        assert.equal(fileOffset % 0x1000, 0, name);
        if (fileSize > 0) fileEnd = fileOffset + fileSize;
        memoryEnd = address + memorySize;
      }
      assert.equal(fileEnd, file.length);
      const blob = segments.find(({ name }) => name === 'NODE_SEA')?.sections[0];
      assert.equal(blob?.name, '__NODE_SEA_BLOB');
      const { offset = 0, size = 0 } = blob ?? {};
      assert.ok(file.subarray(offset, offset + size).includes(OF_PROGRAM));
      const signatures = commands.filter(({ kind }) => kind === CODE_SIGNATURE);
      assert.equal(signatures.length, 1);
      assert.equal(await wrongPages(file, signatures[0]?.at ?? 0), 0);
    });

  for (const platform of PLATFORMS.filter(({ os }) => os === 'windows'))
    it(`${platformName(platform)}: has its sections, the program as a resource, and no certificate`, async () => {
      const file = await executable(platform);
      const { machine, sections, certificates } = readPe(file);
      assert.equal(machine, 0x8664);
      assert.deepEqual(certificates, { offset: 0, size: 0 });
      let end = 0;
      for (const { name, offset, size } of sections) {
        assert.ok(offset >= end, name);
        end = offset + size;
      }
      assert.ok(end <= file.length);
      const { offset = 0, size = 0 } = sections.findLast(({ name }) => name === '.rsrc') ?? {};
      const resources = file.subarray(offset, offset + size);
      assert.ok(resources.includes(Buffer.from('NODE_SEA_BLOB', 'utf16le')));
      assert.ok(resources.includes(OF_PROGRAM));
    });

  for (const platform of PLATFORMS.filter(({ os }) => os === 'linux'))
    it(`${platformName(platform)}: is for its processor, and has the program as a note`, async () => {
      const path = join(folder, platformName(platform), platform.executable);
      const machine = platform.arch === 'arm64' ? 'AArch64' : 'Advanced Micro Devices X86-64';
      assert.match(await output(['readelf', '--file-header', path]), new RegExp(`Machine: +${machine}`));
      assert.match(await output(['readelf', '--notes', path]), /NODE_SEA_BLOB/);
    });

  it('are named in plugin.yaml with their hashes', async () => {
    const { spec, metadata } = parse(krewManifest(archives, 'https://downloads.example.com/v1'));
    assert.equal(metadata.name, 'nodewall');
    assert.equal(spec.platforms.length, PLATFORMS.length);
    for (const { uri, sha256, bin } of spec.platforms) {
      const [, name = ''] = /^https:\/\/downloads\.example\.com\/v1\/([^/]+)$/.exec(uri) ?? [];
      const hash = createHash('sha256')
        .update(await readFile(join(folder, name)))
        .digest('hex');
      assert.equal(hash, sha256);
      assert.match(bin, /^kubectl-nodewall(\.exe)?$/);
    }
  });
});

/** Read by the documents of the format, not by the code that writes it. */
async function wrongPages(file: Buffer, command: number): Promise<number> {
  const start = file.readUInt32LE(command + 8);
  assert.equal(start + file.readUInt32LE(command + 12), file.length);
  const directory = file.subarray(start + file.readUInt32BE(start + 16));
  assert.equal(directory.readUInt32BE(0), 0xfade0c02);
  const pageSize = 2 ** directory.readUInt8(39);
  const [hashes, pages, limit] = [16, 28, 32].map((at) => directory.readUInt32BE(at)) as [
    number,
    number,
    number,
  ];
  assert.equal(limit, start);
  assert.equal(pages, Math.ceil(limit / pageSize));
  let wrong = 0;
  for (let page = 0; page < pages; page++) {
    const content = file.subarray(page * pageSize, Math.min((page + 1) * pageSize, limit));
    const expected = directory.subarray(hashes + 32 * page, hashes + 32 * (page + 1));
    if (!createHash('sha256').update(content).digest().equals(expected)) wrong++;
  }
  return wrong;
}
