import { createHash } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from '../cluster/cache.ts';
import { output } from '../cluster/command.ts';
import { unpackDebianPackage } from '../cluster/debian.ts';
import { confined } from '../realcluster/images/buildah.ts';

const SUITE = 'bookworm';
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
  const apt = await aptSettings();
  const hash = createHash('sha256').update(JSON.stringify([SUITE, packages, apt, process.arch]));
  hash.update(await readFile(import.meta.filename));
  const folder = await cached('debianroot', hash.digest('hex').slice(0, 16), async (fresh) => {
    process.stderr.write(`server: making a Debian with ${packages.join(', ')}, once: a minute or two\n`);
    const { mmdebstrap } = await debianTools();
    const archive = join(fresh, 'root.tar');
    const temporary = join(fresh, 'tmp');
    await mkdir(temporary);
    await output(
      confined([
        'perl',
        mmdebstrap,
        '--variant=minbase',
        ...apt.options.map((option) => `--aptopt=${option}`),
        `--include=${packages.join(',')}`,
        SUITE,
        archive,
        ...(apt.sources === '' ? [] : ['-']),
      ]),
      { stdin: apt.sources, env: { ...process.env, TMPDIR: temporary } },
    );
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

/** Where this machine gets its Debian from; none where it is another: mmdebstrap knows then. */
async function aptSettings(): Promise<{ sources: string; options: string[] }> {
  const format = '$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)';
  const targets = await output(['apt-get', 'indextargets', '--format', format, 'Created-By: Packages']);
  const sources = targets.split('\n').flatMap((row) => {
    const [origin, uri, release = '', component] = row.split(' ');
    return origin === 'Debian' && release.startsWith(SUITE) ? [`deb ${uri} ${release} ${component}\n`] : [];
  });
  const settings = await output(['apt-config', 'dump', '--format', '%F "%v";%n']);
  const options = settings
    .split('\n')
    .filter((row) => /^Acquire::(https?::|Check-|Retries).* ".+";$/.test(row));
  return { sources: [...new Set(sources)].sort().join(''), options };
}
