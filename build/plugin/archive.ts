import { createHash } from 'node:crypto';
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { VERSION } from '../../lib/process/version.ts';
import { output } from '../programs/command.ts';
import { ROOT } from '../programs/folder.ts';
import type { PluginBundle } from './bundle.ts';
import { makeExecutable } from './executable.ts';
import { nodeBinary, PLATFORMS, type Platform, platformName, tool } from './platforms.ts';

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

/**
 * plugin.yaml, by which `kubectl krew install --manifest` installs the archives.
 *
 * @param from where the archives are: the URL of a folder
 */
export function krewManifest(archives: readonly Archive[], from: string): string {
  return stringify({
    apiVersion: 'krew.googlecontainertools.github.com/v1alpha2',
    kind: 'Plugin',
    metadata: { name: 'nodewall' },
    spec: {
      version: `v${VERSION}`,
      shortDescription: 'Ask and steer a host firewall of nodes',
      description: [
        'Says what nodewall, a host firewall for Kubernetes nodes, does in a cluster: what is wrong,',
        'which rule decides a connection, what is dropped now, which flows there are. Steers',
        'rollouts, and checks policies before they are applied.',
      ].join(' '),
      caveats:
        'nodewall must be installed in the cluster; who asks needs ClusterRole nodewall-view. ' +
        'On Linux it needs glibc 2.28, libstdc++ and libatomic.',
      platforms: archives.map(({ platform: { os, arch, executable }, name, sha256 }) => ({
        selector: { matchLabels: { os, arch } },
        uri: new URL(name, from.endsWith('/') ? from : `${from}/`).href,
        sha256,
        bin: executable,
      })),
    },
  });
}
