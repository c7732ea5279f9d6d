import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { output, outputIfThere } from './command.ts';

/**
 * Unpacks a package of this machine's Debian, without what it depends on, into a folder. Nothing is
 * installed: no root needed, no service started. Rejects where there is no apt, or no such package.
 * `apt` are options, for packages of another suite.
 */
export async function unpackDebianPackage(
  name: string,
  folder: string,
  apt: readonly string[] = [],
): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), 'nodewall-package-'));
  try {
    // As root apt would download as user _apt, who may not write here.
    const options = ['-qq', '-o', 'APT::Sandbox::User=root', ...apt];
    await output(['apt-get', ...options, 'download', name], { cwd: scratch });
    const [file = ''] = await readdir(scratch);
    await output(['dpkg-deb', '--extract', join(scratch, file), folder]);
  } finally {
    await rm(scratch, { recursive: true });
  }
}

/**
 * The first package that a package depends on whose name fits; null where apt or the package is
 * missing.
 */
export async function debianDependency(name: string, pattern: RegExp): Promise<string | null> {
  const text = await outputIfThere(['apt-cache', 'depends', '--important', name]);
  const names = [...(text ?? '').matchAll(/^ *Depends: (\S+)$/gm)].map(([, dependency]) => dependency ?? '');
  return names.find((dependency) => pattern.test(dependency)) ?? null;
}
