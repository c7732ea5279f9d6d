/** Packages of other suites of Debian than this machine's, from where it gets its own. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { output } from '../programs/command.ts';
import { debianSources } from './mmdebstrap.ts';

const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';

interface DebianSuite {
  readonly suite: string;
  /** Debian's name of the processors. */
  readonly processor: string;
}

/** Runs something with options for apt, by which it knows the packages of the suite alone. */
export async function withDebianSuite(
  { suite, processor }: DebianSuite,
  body: (options: readonly string[]) => Promise<void>,
): Promise<void> {
  const { sources } = await debianSources();
  const mirror = /^deb (\S+) bookworm main$/m.exec(sources)?.[1];
  if (mirror === undefined) throw new Error('packages of other suites need a Debian 12 with apt sources');
  const scratch = await mkdtemp(join(tmpdir(), 'nodewall-apt-'));
  try {
    const list = join(scratch, 'sources.list');
    await writeFile(list, `deb [arch=${processor} signed-by=${KEYRING}] ${mirror} ${suite} main\n`);
    await mkdir(join(scratch, 'lists/partial'), { recursive: true });
    const settings = {
      'Dir::Etc::SourceList': list,
      'Dir::Etc::SourceParts': '/dev/null',
      'Dir::State::Lists': join(scratch, 'lists'),
      // Else apt takes the version of a package that is installed here.
      'Dir::State::status': '/dev/null',
      'Dir::Cache::pkgcache': '',
      'Dir::Cache::srcpkgcache': '',
      'APT::Sandbox::User': 'root',
      'APT::Architecture': processor,
      'APT::Architectures': processor,
      'Acquire::Languages': 'none',
    };
    const options = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
    await output(['apt-get', ...options, 'update', '-qq']);
    await body(options);
  } finally {
    await rm(scratch, { recursive: true });
  }
}
