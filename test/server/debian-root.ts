import { createHash } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { debianSources, MMDEBSTRAP, makeDebian } from '../../build/images/mmdebstrap.ts';
import { cached } from '../../build/programs/cache.ts';
import { output, unpackDebianPackage } from '../../build/programs/command.ts';

/** mmdebstrap makes a root; systemd-nspawn, with the library that it needs, boots it. */
const TOOLS = ['mmdebstrap', 'systemd-container', 'libsystemd-shared'];

export interface DebianTools {
  readonly mmdebstrap: string;
  readonly nspawn: string;
  /** Where nspawn finds its library. */
  readonly libraries: string;
}

/** Unpacked from Debian packages, once; nothing is installed. */
export async function debianTools(): Promise<DebianTools> {
  const key = createHash('sha256')
    .update(JSON.stringify([TOOLS, process.arch]))
    .digest('hex')
    .slice(0, 16);
  const folder = await cached('debiantools', key, async (fresh) => {
    for (const name of TOOLS) await unpackDebianPackage(name, fresh);
  });
  const multiarch = `${process.arch === 'x64' ? 'x86_64' : 'aarch64'}-linux-gnu`;
  return {
    mmdebstrap: join(folder, 'usr/bin/mmdebstrap'),
    nspawn: join(folder, 'usr/bin/systemd-nspawn'),
    libraries: join(folder, 'usr/lib', multiarch, 'systemd'),
  };
}

/**
 * The root of a small Debian with these packages, made once from Debian packages: a minute or two.
 * Nobody writes to it: machines lay a folder of their own over it.
 */
export async function debianRoot(packages: readonly string[]): Promise<string> {
  const from = await debianSources();
  const hash = createHash('sha256').update(JSON.stringify([packages, from, process.arch]));
  for (const file of [import.meta.filename, MMDEBSTRAP]) hash.update(await readFile(file));
  const folder = await cached('debianroot', hash.digest('hex').slice(0, 16), async (fresh) => {
    process.stderr.write(`server: making a Debian with ${packages.join(', ')}, once: a minute or two\n`);
    const { mmdebstrap } = await debianTools();
    const archive = join(fresh, 'root.tar');
    const temporary = join(fresh, 'tmp');
    await mkdir(temporary);
    await makeDebian({ from, mmdebstrap, packages, archive, temporary });
    const root = join(fresh, 'root');
    await mkdir(root);
    // Devices are those of the machine that runs.
    await output(['tar', '-xf', archive, '-C', root, '--numeric-owner', '--exclude=./dev/*']);
    // Without an identity systemd takes each boot for the first, and enables every unit there is.
    await writeFile(join(root, 'etc/machine-id'), `${'0123456789abcdef'.repeat(2)}\n`);
    await rm(archive);
    await rm(temporary, { recursive: true });
  });
  return join(folder, 'root');
}
