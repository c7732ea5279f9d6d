import { createHash } from 'node:crypto';
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from '../checkout.ts';
import { output } from '../programs/command.ts';
import type { PluginBundle } from './bundle.ts';
import { makeExecutable } from './executable.ts';
import { nodeBinary, tool } from './node-binaries.ts';
import { PLATFORMS, type Platform, platformName } from './platforms.ts';

export interface Archive {
  readonly platform: Platform;
  /** In the folder that it was made in. */
  readonly name: string;
  readonly sha256: string;
}

/** All files in archives have the same time: the same sources give the same bytes. */
const TIME = '@0';

/** Makes `kubectl-nodewall-OS-ARCH.tar.gz`: the executable and the licences of all in it. */
export async function makeArchive(
  platform: Platform,
  bundle: PluginBundle,
  folder: string,
): Promise<Archive> {
  const scratch = await mkdtemp(join(tmpdir(), 'nodewall-archive-'));
  try {
    const content = join(scratch, 'content');
    await mkdir(content, { mode: 0o755 });
    await makeExecutable(platform, bundle.code, join(content, platform.executable));
    await copyFile(join(ROOT, 'LICENSE'), join(content, 'LICENSE'));
    await writeFile(join(content, 'LICENSE.third-party'), await thirdParty(bundle.sources));
    const tar = join(scratch, 'archive.tar');
    const same = [
      '--sort=name',
      `--mtime=${TIME}`,
      '--owner=0',
      '--group=0',
      '--numeric-owner',
      '--mode=u=rwX,go=rX',
    ];
    await output(['tar', '--format=ustar', ...same, '-C', content, '-cf', tar, '.']);
    const { program, env } = await tool('libdeflate-gzip');
    await output([program, '-12', '-n', tar], { env });
    const name = `kubectl-nodewall-${platformName(platform)}.tar.gz`;
    await copyFile(`${tar}.gz`, join(folder, name));
    const sha256 = createHash('sha256')
      .update(await readFile(join(folder, name)))
      .digest('hex');
    return { platform, name, sha256 };
  } finally {
    await rm(scratch, { recursive: true });
  }
}

/** The licences of Node.js, with those of its parts, and of each npm package in the program. */
async function thirdParty(sources: readonly string[]): Promise<string> {
  const [any] = PLATFORMS;
  if (any === undefined) throw new Error('there is no platform');
  // The package for Windows has none; it is the same Node.js.
  const node = join(await nodeBinary(any), '../../LICENSE');
  const packages = new Set(
    sources.flatMap((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []),
  );
  const texts = [`Node.js\n\n${await readFile(node, 'utf8')}`];
  for (const name of [...packages].sort()) texts.push(`${name}\n\n${await licenceOf(name)}`);
  return texts.join(`\n${'-'.repeat(80)}\n`);
}

async function licenceOf(name: string): Promise<string> {
  const folder = join(ROOT, 'node_modules', name);
  for (const file of ['LICENSE', 'LICENSE.md', 'LICENSE.txt', 'license', 'LICENCE', 'LICENSE-MIT.txt']) {
    try {
      return await readFile(join(folder, file), 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  // Some packages name their licence only.
  const { license, author } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
  if (typeof license !== 'string') throw new Error(`${name} names no licence`);
  return `${license}, ${JSON.stringify(author)}\n`;
}
