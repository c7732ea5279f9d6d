import { chmod, copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { output } from '../programs/command.ts';
import { signMachO } from './mach-o.ts';
import { nodeBinary, PLATFORMS, type Platform, platformName, tool } from './platforms.ts';

/**
 * Makes the executable of a platform at `path`: its Node.js with the program in it (Node's single
 * executable applications, `--build-sea` of Node 26, which writes ELF, Mach-O and PE on any
 * system).
 */
export async function makeExecutable(platform: Platform, code: string, path: string): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), 'nodewall-plugin-'));
  try {
    const node = join(scratch, 'node');
    await copyFile(await nodeBinary(platform), node);
    if (platform.strip !== null) {
      const { program, env } = await tool(platform.strip.program);
      await output([program, node], { env });
    }
    await writeFile(join(scratch, 'program.cjs'), code);
    const configuration = {
      // Its path is part of the executable: relative, it is the same each time.
      main: 'program.cjs',
      executable: node,
      output: path,
      disableExperimentalSEAWarning: true,
      // NODE_OPTIONS of the user's other programs are not for this one.
      execArgvExtension: 'none',
    };
    await writeFile(join(scratch, 'configuration.json'), JSON.stringify(configuration));
    // Both must be of one version; nodes/package.json has one for all.
    await output([await ownNode(), '--build-sea', 'configuration.json'], { cwd: scratch });
    if (platform.os === 'darwin') await writeFile(path, signMachO(await readFile(path), 'kubectl-nodewall'));
    if (platform.os === 'windows') await writeFile(path, withoutSignature(await readFile(path)));
    await chmod(path, 0o755);
  } finally {
    await rm(scratch, { recursive: true });
  }
}

/** The one of nodes/ that runs on this machine. */
async function ownNode(): Promise<string> {
  const own = `${process.platform}-${process.arch === 'x64' ? 'amd64' : process.arch}`;
  const platform = PLATFORMS.find((one) => platformName(one) === own);
  if (platform === undefined) throw new Error(`executables of the plugin cannot be made on ${own}`);
  return await nodeBinary(platform);
}

/** A PE32+ file (PE Format of Microsoft), as far as it is looked at. */
interface Pe {
  readonly machine: number;
  readonly sections: readonly PeSection[];
  /** The place of the entry of the attribute certificates in the file (bytes). */
  readonly certificatesAt: number;
  /** Where they are in the file; 0, 0: there are none. */
  readonly certificates: { readonly offset: number; readonly size: number };
}

interface PeSection {
  readonly name: string;
  /** In memory, from the base of the image. */
  readonly address: number;
  readonly offset: number;
  readonly size: number;
}

const HEADER_POINTER = 0x3c;
const SIGNATURE = 'PE\0\0';
const FILE_HEADER = 24;
const PE32_PLUS = 0x20b;
const DIRECTORIES = 112;
const CERTIFICATES = 4;
const SECTION = 40;

/** Throws a RangeError where the file is no PE32+ file. */
export function readPe(file: Buffer): Pe {
  const at = file.readUInt32LE(HEADER_POINTER);
  const optional = at + FILE_HEADER;
  if (file.toString('latin1', at, at + 4) !== SIGNATURE || file.readUInt16LE(optional) !== PE32_PLUS)
    throw new RangeError('not a PE32+ file');
  const first = optional + file.readUInt16LE(at + 20);
  const certificatesAt = optional + DIRECTORIES + 8 * CERTIFICATES;
  return {
    machine: file.readUInt16LE(at + 4),
    sections: Array.from({ length: file.readUInt16LE(at + 6) }, (_, i) => {
      const from = first + i * SECTION;
      return {
        name: file.toString('latin1', from, from + 8).replace(/\0+$/, ''),
        address: file.readUInt32LE(from + 12),
        offset: file.readUInt32LE(from + 20),
        size: file.readUInt32LE(from + 16),
      };
    }),
    certificatesAt,
    certificates: { offset: file.readUInt32LE(certificatesAt), size: file.readUInt32LE(certificatesAt + 4) },
  };
}

/**
 * Without the certificates of whom it was made of, which no longer fit what is in it: `--build-sea`
 * writes the program over them, and leaves the entry that points there.
 */
function withoutSignature(file: Buffer): Buffer {
  const { certificatesAt } = readPe(file);
  const unsigned = Buffer.from(file);
  unsigned.fill(0, certificatesAt, certificatesAt + 8);
  return unsigned;
}
