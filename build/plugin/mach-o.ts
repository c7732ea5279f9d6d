import { createHash } from 'node:crypto';

/** A 64-bit Mach-O file (loader.h of macOS), as far as a signature needs it. */
interface MachO {
  readonly cpu: 'x86_64' | 'arm64';
  readonly segments: readonly MachOSegment[];
  readonly commands: readonly MachOCommand[];
  /** Where load commands end, and where the first section begins (bytes). */
  readonly commandsEnd: number;
  readonly firstSection: number;
}

interface MachOCommand {
  readonly kind: number;
  /** The place of the command in the file (bytes). */
  readonly at: number;
  readonly size: number;
}

interface MachOSegment {
  readonly name: string;
  /** The place of the load command in the file (bytes). */
  readonly at: number;
  readonly address: bigint;
  readonly memorySize: bigint;
  readonly fileOffset: number;
  readonly fileSize: number;
  readonly sections: readonly { readonly name: string; readonly offset: number; readonly size: number }[];
}

const MAGIC = 0xfeedfacf;
const CPUS: Readonly<Record<number, MachO['cpu']>> = { 16777223: 'x86_64', 16777228: 'arm64' };
const HEADER = 32;
const SEGMENT = 0x19;
const SEGMENT_SIZE = 72;
const SECTION_SIZE = 80;
export const CODE_SIGNATURE = 0x1d;

/** Throws a RangeError where the file is no Mach-O file for one of the two processors. */
export function readMachO(file: Buffer): MachO {
  const cpu = CPUS[file.readUInt32LE(4)];
  if (file.readUInt32LE(0) !== MAGIC || cpu === undefined) throw new RangeError('not a 64-bit Mach-O file');
  const commands: MachOCommand[] = [];
  const segments: MachOSegment[] = [];
  let at = HEADER;
  for (let left = file.readUInt32LE(16); left > 0; left--) {
    const command = { kind: file.readUInt32LE(at), at, size: file.readUInt32LE(at + 4) };
    commands.push(command);
    if (command.kind === SEGMENT) segments.push(readSegment(file, at));
    at += command.size;
  }
  const offsets = segments.flatMap(({ sections }) => sections.map(({ offset }) => offset));
  const firstSection = Math.min(...offsets.filter((offset) => offset > 0));
  return { cpu, segments, commands, commandsEnd: at, firstSection };
}

function readSegment(file: Buffer, at: number): MachOSegment {
  const sections = Array.from({ length: file.readUInt32LE(at + 64) }, (_, i) => {
    const from = at + SEGMENT_SIZE + i * SECTION_SIZE;
    return {
      name: nameAt(file, from),
      offset: file.readUInt32LE(from + 48),
      size: Number(file.readBigUInt64LE(from + 40)),
    };
  });
  return {
    name: nameAt(file, at + 8),
    at,
    sections,
    address: file.readBigUInt64LE(at + 24),
    memorySize: file.readBigUInt64LE(at + 32),
    fileOffset: Number(file.readBigUInt64LE(at + 40)),
    fileSize: Number(file.readBigUInt64LE(at + 48)),
  };
}

/** 16 bytes, filled with zeros. */
function nameAt(file: Buffer, at: number): string {
  return file.toString('latin1', at, at + 16).replace(/\0+$/, '');
}

/**
 * An ad-hoc signature as macOS' linker makes it (cs_blobs.h of XNU): hashes of all pages, and no
 * certificate. macOS on arm64 starts no program without one. No npm package makes it elsewhere than
 * on macOS; ADR 35 names the programs that were looked at.
 */

const EMBEDDED = 0xfade0cc0;
const CODE_DIRECTORY = 0xfade0c02;
/** With the limits of the executable segment. */
const VERSION = 0x20400;
const AD_HOC_BY_LINKER = 0x20002;
const SHA256 = 2;
const HASH_SIZE = 32;
/** As a power of two: 4096. */
const PAGE_BITS = 12;
const PAGE = 1 << PAGE_BITS;
const MAIN_BINARY = 1n;
/** Bytes: of the blob that holds the directory with its index, and of the directory's head. */
const BLOB_HEAD = 20;
const DIRECTORY_HEAD = 88;
const COMMAND_SIZE = 16;
/** Segments begin and end at pages of arm64, which are the larger ones. */
const SEGMENT_PAGE = 0x4000n;
const NUMBER_OF_COMMANDS = 16;
const SIZE_OF_COMMANDS = 20;

/**
 * The file with an ad-hoc signature. Throws a RangeError if it has one already, or no room for the
 * load command of one.
 */
export function signMachO(file: Buffer, identifier: string): Buffer {
  const { commands, segments, commandsEnd, firstSection } = readMachO(file);
  if (commands.some(({ kind }) => kind === CODE_SIGNATURE)) throw new RangeError('it is signed already');
  if (commandsEnd + COMMAND_SIZE > firstSection) throw new RangeError('no room for a load command');
  const text = named(segments, '__TEXT');
  const link = named(segments, '__LINKEDIT');
  if (link.fileOffset + link.fileSize !== file.length)
    throw new RangeError('__LINKEDIT is not at the end of the file');
  const start = Math.ceil(file.length / 16) * 16;
  const size = signatureSize(start, identifier);

  const signed = Buffer.alloc(start + size);
  file.copy(signed);
  signed.writeUInt32LE(CODE_SIGNATURE, commandsEnd);
  signed.writeUInt32LE(COMMAND_SIZE, commandsEnd + 4);
  signed.writeUInt32LE(start, commandsEnd + 8);
  signed.writeUInt32LE(size, commandsEnd + 12);
  signed.writeUInt32LE(commands.length + 1, NUMBER_OF_COMMANDS);
  signed.writeUInt32LE(file.readUInt32LE(SIZE_OF_COMMANDS) + COMMAND_SIZE, SIZE_OF_COMMANDS);
  const linkSize = BigInt(start + size - link.fileOffset);
  signed.writeBigUInt64LE(((linkSize + SEGMENT_PAGE - 1n) / SEGMENT_PAGE) * SEGMENT_PAGE, link.at + 32);
  signed.writeBigUInt64LE(linkSize, link.at + 48);
  signature(signed.subarray(0, start), identifier, text).copy(signed, start);
  return signed;
}

function named(segments: readonly MachOSegment[], name: string): MachOSegment {
  const found = segments.find((one) => one.name === name);
  if (found === undefined) throw new RangeError(`there is no segment ${name}`);
  return found;
}

function signatureSize(limit: number, identifier: string): number {
  return BLOB_HEAD + DIRECTORY_HEAD + identifier.length + 1 + Math.ceil(limit / PAGE) * HASH_SIZE;
}

/** Numbers in it are big-endian. */
function signature(code: Buffer, identifier: string, text: MachOSegment): Buffer {
  const blob = Buffer.alloc(signatureSize(code.length, identifier));
  const pages = Math.ceil(code.length / PAGE);
  const hashes = DIRECTORY_HEAD + identifier.length + 1;
  writeAll(blob, [EMBEDDED, blob.length, 1, 0, BLOB_HEAD]);
  const directory = blob.subarray(BLOB_HEAD);
  const head = [CODE_DIRECTORY, directory.length, VERSION, AD_HOC_BY_LINKER];
  writeAll(directory, [...head, hashes, DIRECTORY_HEAD, 0, pages, code.length]);
  directory.set([HASH_SIZE, SHA256, 0, PAGE_BITS], 36);
  directory.writeBigUInt64BE(BigInt(text.fileOffset), 64);
  directory.writeBigUInt64BE(BigInt(text.fileSize), 72);
  directory.writeBigUInt64BE(MAIN_BINARY, 80);
  directory.write(identifier, DIRECTORY_HEAD, 'latin1');
  for (let page = 0; page < pages; page++) {
    const content = code.subarray(page * PAGE, (page + 1) * PAGE);
    createHash('sha256')
      .update(content)
      .digest()
      .copy(directory, hashes + page * HASH_SIZE);
  }
  return blob;
}

function writeAll(to: Buffer, numbers: readonly number[]): void {
  for (const [i, number] of numbers.entries()) to.writeUInt32BE(number, 4 * i);
}
