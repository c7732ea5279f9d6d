import { createHash } from 'node:crypto';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from '../../cluster/cache.ts';
import { output } from '../../cluster/command.ts';
import { ROOT } from '../../structure/source-file.ts';
import { Buildah, confined, isReadable, unpackTools } from './buildah.ts';

const NPM = 'npm@11.19.1';
const SUITE = 'bookworm';
/** As Docker's debian:12-slim has it: no documents but licences. */
const SLIM = [
  'path-exclude=/usr/share/doc/*',
  'path-include=/usr/share/doc/*/copyright',
  'path-exclude=/usr/share/locale/*',
  'path-exclude=/usr/share/man/*',
];
/** What deploy/Dockerfile uses of node:24-bookworm, which has much more. */
const COMPILER = ['g++', 'make', 'pkg-config'];

/** Where the images are that deploy/Dockerfile is built from, and with what. */
export interface BaseImages {
  readonly key: string;
  /** Of buildah's. */
  readonly tools: string;
  readonly storage: string;
  /**
   * Files of this machine that say how packages are fetched, at which paths steps must find them.
   */
  readonly volumes: readonly [from: string, to: string][];
}

/**
 * Stand-ins for debian:12-slim and node:24-bookworm out of packages of Debian and npm: made once,
 * about two minutes.
 */
export async function baseImages(): Promise<BaseImages> {
  const { dependencies } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
  const apt = await aptSettings();
  const hash = createHash('sha256').update(JSON.stringify([dependencies.node, apt, process.arch]));
  for (const name of ['base.ts', 'buildah.ts']) hash.update(await readFile(join(import.meta.dirname, name)));
  const key = hash.digest('hex').slice(0, 16);
  const volumes = await packageSettings();
  const folder = await cached('imagebase', key, async (fresh) => {
    process.stderr.write('images: making base images of Debian packages, once: some minutes\n');
    const tools = join(fresh, 'tools');
    await unpackTools(tools);
    const scratch = await mkdtemp(join(fresh, 'build-'));
    const buildah = await Buildah.open({ tools, folder: scratch, lower: [] });
    const debian = join(scratch, 'debian');
    await mkdir(debian);
    const options = apt.options.map((option) => `--aptopt=${option}`);
    await output(
      confined([
        'perl',
        join(tools, 'usr/bin/mmdebstrap'),
        '--variant=minbase',
        ...options,
        SUITE,
        join(debian, 'base.tar'),
        ...(apt.sources === '' ? [] : ['-']),
      ]),
      { stdin: apt.sources, env: { ...process.env, TMPDIR: join(scratch, 'tmp') } },
    );
    await writeFile(join(debian, 'slim'), SLIM.map((row) => `${row}\n`).join(''));
    const steps = ['FROM scratch', 'ADD base.tar /', 'COPY slim /etc/dpkg/dpkg.cfg.d/docker'];
    await writeFile(join(debian, 'Dockerfile'), `${steps.join('\n')}\n`);
    await buildah.build('docker.io/library/debian:12-slim', debian);
    const node = join(scratch, 'node');
    await nodeContext(node, volumes);
    const major = dependencies.node.split('.')[0];
    await buildah.build(`docker.io/library/node:${major}-bookworm`, node, { volumes });
    await output(['mv', join(scratch, 'storage'), fresh]);
    await rm(scratch, { recursive: true });
  });
  return { key, tools: join(folder, 'tools'), storage: join(folder, 'storage'), volumes };
}

/** Node.js as package.json pins it, which setup has fetched, and npm out of its package. */
async function nodeContext(folder: string, volumes: readonly [string, string][]): Promise<void> {
  await mkdir(join(folder, 'npm'), { recursive: true });
  await output(['npm', 'pack', NPM, '--silent'], { cwd: folder });
  const archive = (await readdir(folder)).find((name) => name.endsWith('.tgz')) ?? '';
  await output(['tar', '-xzf', archive, '-C', 'npm', '--strip-components=1', '--no-same-owner'], {
    cwd: folder,
  });
  await copyFile(join(ROOT, 'node_modules/node/bin/node'), join(folder, 'node'));
  const authorities = process.env.NODE_EXTRA_CA_CERTS;
  const isMounted = volumes.some(([, to]) => to === authorities);
  const steps = [
    'FROM debian:12-slim',
    `RUN apt-get update && apt-get install -y --no-install-recommends ${COMPILER.join(' ')} && rm -rf /var/lib/apt/lists/*`,
    'COPY node /usr/local/bin/',
    'COPY npm/ /usr/local/lib/node_modules/npm/',
    'RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm',
    ...(isMounted ? [`ENV NODE_EXTRA_CA_CERTS=${authorities}`] : []),
  ];
  await writeFile(join(folder, 'Dockerfile'), `${steps.join('\n')}\n`);
}

/**
 * Where this machine gets this Debian from, and through what; none where it is another Debian:
 * mmdebstrap knows where then.
 */
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

async function packageSettings(): Promise<[string, string][]> {
  const npm = JSON.parse(await output(['npm', 'config', 'list', '--json']));
  const authorities = [process.env.NODE_EXTRA_CA_CERTS, npm.cafile, '/etc/ssl/certs/ca-certificates.crt'];
  const files: [string, string][] = [
    ...[...new Set(authorities)].flatMap((file): [string, string][] => (file ? [[file, file]] : [])),
    [npm.userconfig, '/root/.npmrc'],
    [npm.globalconfig, '/usr/local/etc/npmrc'],
  ];
  const readable = await Promise.all(files.map(([file]) => isReadable(file)));
  return files.filter((_, index) => readable[index]);
}
