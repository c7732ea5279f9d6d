import { createHash } from 'node:crypto';
import { copyFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from '../programs/cache.ts';
import { output } from '../programs/command.ts';
import { unpackDebianPackage } from '../programs/debian.ts';
import { PLATFORMS, type Platform } from './platforms.ts';

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
export interface Tool {
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
