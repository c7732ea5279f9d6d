/** A small Debian, by mmdebstrap, from where this machine gets its own. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { output, unpackDebianPackage } from '../programs/command.ts';
import { confined } from './buildah.ts';

const SUITE = 'bookworm';
/** This file: what it makes depends on it. */
export const MMDEBSTRAP = import.meta.filename;

interface DebianSources {
  /**
   * Lines of sources.list; '' where this machine is no Debian of the suite: mmdebstrap knows then.
   */
  readonly sources: string;
  /** Settings of apt: proxies and the like. */
  readonly options: readonly string[];
}

/** Where this machine gets its Debian from. */
export async function debianSources(): Promise<DebianSources> {
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

interface Debian {
  readonly from: DebianSources;
  /** The program. */
  readonly mmdebstrap: string;
  /** Beside those that are essential. */
  readonly packages: readonly string[];
  /** The tar archive to write. */
  readonly archive: string;
  /** A folder that exists. */
  readonly temporary: string;
  /**
   * Packages of these architectures are unpacked, and their scripts are not run; default: those of
   * this machine's are installed.
   */
  readonly unpackedFor?: readonly string[];
}

/** Makes it: a minute or two. */
export async function makeDebian(debian: Debian): Promise<void> {
  const { from, mmdebstrap, packages, archive, temporary, unpackedFor } = debian;
  const argv = [
    ...['perl', mmdebstrap],
    ...(unpackedFor === undefined
      ? ['--variant=minbase']
      : ['--variant=extract', `--architectures=${unpackedFor.join(',')}`]),
    ...from.options.map((option) => `--aptopt=${option}`),
    ...(packages.length === 0 ? [] : [`--include=${packages.join(',')}`]),
    ...[SUITE, archive],
    ...(from.sources === '' ? [] : ['-']),
  ];
  await output(confined(argv), { stdin: from.sources, env: { ...process.env, TMPDIR: temporary } });
}

/**
 * Unpacks packages and what they depend on into a folder: half a minute. Nothing is installed, in
 * that folder neither: what packages' scripts make is missing.
 *
 * @param architectures Debian's names; the first is that of packages without `:ARCHITECTURE`
 */
export async function unpackDebian(
  folder: string,
  packages: readonly string[],
  architectures: readonly string[],
): Promise<void> {
  const temporary = await mkdtemp(join(tmpdir(), 'nodewall-debian-'));
  const archive = join(temporary, 'root.tar');
  try {
    await unpackDebianPackage('mmdebstrap', join(temporary, 'tools'));
    const from = await debianSources();
    const mmdebstrap = join(temporary, 'tools/usr/bin/mmdebstrap');
    await makeDebian({ from, mmdebstrap, packages, archive, temporary, unpackedFor: architectures });
    await output(['tar', '-xf', archive, '-C', folder]);
  } finally {
    await rm(temporary, { recursive: true });
  }
}
