/** A small Debian, by mmdebstrap, from where this machine gets its own. */
import { output } from '../programs/command.ts';
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
}

/** Makes it: a minute or two. */
export async function makeDebian({ from, mmdebstrap, packages, archive, temporary }: Debian): Promise<void> {
  const argv = [
    ...['perl', mmdebstrap, '--variant=minbase'],
    ...from.options.map((option) => `--aptopt=${option}`),
    ...(packages.length === 0 ? [] : [`--include=${packages.join(',')}`]),
    ...[SUITE, archive],
    ...(from.sources === '' ? [] : ['-']),
  ];
  await output(confined(argv), { stdin: from.sources, env: { ...process.env, TMPDIR: temporary } });
}
