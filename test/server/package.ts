import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { output } from '../../build/programs/command.ts';
import { ROOT } from '../structure/source-file.ts';

/** Builds the package of this checkout into a folder: a minute or two. Returns its path. */
export async function buildPackage(folder: string): Promise<string> {
  await output([join(ROOT, 'build/package/deb'), folder]);
  const file = (await readdir(folder)).find((name) => name.endsWith('.deb'));
  if (file === undefined) throw new Error(`no package in ${folder}`);
  return join(folder, file);
}

/** The same package with a higher revision, to be upgraded to. Returns its path. */
export async function nextRevision(file: string, folder: string): Promise<string> {
  const tree = join(folder, 'tree');
  await mkdir(folder, { recursive: true });
  await output(['dpkg-deb', '--raw-extract', file, tree]);
  const control = join(tree, 'DEBIAN/control');
  const text = await readFile(control, 'utf8');
  const next = text.replace(/^(Version: .*-)\d+$/m, '$12');
  if (next === text) throw new Error(`no revision in ${control}`);
  await writeFile(control, next);
  const built = join(folder, 'next.deb');
  await output(['dpkg-deb', '--root-owner-group', '-Zgzip', '-z1', '--build', tree, built]);
  return built;
}
