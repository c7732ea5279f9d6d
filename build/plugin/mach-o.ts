/** A 64-bit Mach-O file (loader.h of macOS), as far as a signature needs it. */
export interface MachO {
  readonly cpu: 'x86_64' | 'arm64';
  readonly segments: readonly MachOSegment[];
  readonly commands: readonly MachOCommand[];
  /** Where load commands end, and where the first section begins (bytes). */
  readonly commandsEnd: number;
  readonly firstSection: number;
}

export interface MachOCommand {
  readonly kind: number;
  /** The place of the command in the file (bytes). */
  readonly at: number;
  readonly size: number;
}

export interface MachOSegment {
  readonly name: string;
  /** The place of the load command in the file (bytes). */
  readonly at: number;
  readonly address: bigint;
  readonly memorySize: bigint;
  readonly fileOffset: number;
  readonly fileSize: number;
  readonly sections: readonly MachOSection[];
}

export interface MachOSection {
  readonly name: string;
  readonly offset: number;
  readonly size: number;
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
