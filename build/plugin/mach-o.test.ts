import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { output } from '../programs/command.ts';
import { findGo, goEnvironment } from '../programs/go.ts';
import { CODE_SIGNATURE, readMachO, signMachO } from './mach-o.ts';

const PROGRAM = 'package main\n\nfunc main() { println("hello") }\n';
/** As Go's linker calls what it signs. */
const IDENTIFIER = 'a.out';

/** The file before Go's linker signed it, which is the last that it does, and the signature. */
function unsigned(signed: Buffer): {
  readonly file: Buffer;
  readonly signature: Buffer;
  readonly at: number;
} {
  const { commands, commandsEnd, segments } = readMachO(signed);
  const command = commands.at(-1);
  assert.equal(command?.kind, CODE_SIGNATURE);
  const { at = 0 } = command ?? {};
  const start = signed.readUInt32LE(at + 8);
  const size = signed.readUInt32LE(at + 12);
  const file = Buffer.from(signed.subarray(0, start));
  file.fill(0, at, commandsEnd);
  file.writeUInt32LE(commands.length - 1, 16);
  file.writeUInt32LE(signed.readUInt32LE(20) - 16, 20);
  const link = segments.find(({ name }) => name === '__LINKEDIT');
  assert.ok(link);
  file.writeBigUInt64LE(BigInt(start - link.fileOffset), link.at + 48);
  return { file, signature: signed.subarray(start, start + size), at: start };
}

describe('signMachO', function () {
  this.timeout(300_000);
  let folder: string;
  const programs: Record<string, Buffer> = {};
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-mach-o-'));
    await writeFile(join(folder, 'main.go'), PROGRAM);
    const { command } = await findGo();
    for (const GOARCH of ['arm64', 'amd64']) {
      const path = join(folder, GOARCH);
      const env = goEnvironment({ CGO_ENABLED: '0', GOOS: 'darwin', GOARCH });
      await output([command, 'build', '-o', path, join(folder, 'main.go')], { cwd: folder, env });
      programs[GOARCH] = await readFile(path);
    }
  });
  after(() => rm(folder, { recursive: true, force: true }));

  /** Go's linker signs for arm64 alone; the same code is what macOS starts every day. */
  it('makes the signature that Go’s linker makes, byte for byte', () => {
    const theirs = programs.arm64;
    assert.ok(theirs);
    const { file, signature, at } = unsigned(theirs);
    const ours = signMachO(file, IDENTIFIER);
    const start = Math.ceil(at / 16) * 16;
    assert.equal(start, at);
    const { commands, segments } = readMachO(ours);
    assert.equal(commands.at(-1)?.kind, CODE_SIGNATURE);
    const link = segments.find(({ name }) => name === '__LINKEDIT');
    assert.equal((link?.fileOffset ?? 0) + (link?.fileSize ?? 0), ours.length);
    assert.ok((link?.memorySize ?? 0n) >= BigInt(link?.fileSize ?? 0));
    assert.deepEqual(withoutLinkSizes(ours), withoutLinkSizes(theirs));
    assert.equal(ours.subarray(start).length, signature.length);
  });

  /** Our __LINKEDIT ends at a page of arm64, Go's does not; the first page's hash follows. */
  function withoutLinkSizes(file: Buffer): string[] {
    const { segments, commands } = readMachO(file);
    const copy = Buffer.from(file);
    const link = segments.find(({ name }) => name === '__LINKEDIT');
    copy.fill(0, (link?.at ?? 0) + 32, (link?.at ?? 0) + 40);
    const start = copy.readUInt32LE((commands.at(-1)?.at ?? 0) + 8);
    const hashes = copy.readUInt32BE(start + 20 + 16) + start + 20;
    copy.fill(0, hashes, hashes + 32);
    return copy.toString('hex').match(/.{1,128}/g) ?? [];
  }

  it('refuses what it cannot sign', () => {
    const { arm64 = Buffer.alloc(0), amd64 = Buffer.alloc(0) } = programs;
    assert.throws(() => signMachO(arm64, IDENTIFIER), /signed already/);
    assert.throws(() => signMachO(Buffer.concat([amd64, Buffer.alloc(1)]), IDENTIFIER), /not at the end/);
    assert.throws(() => signMachO(Buffer.alloc(64), IDENTIFIER), /not a 64-bit Mach-O file/);
  });
});
