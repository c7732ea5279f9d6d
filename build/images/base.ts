import { createHash } from 'node:crypto';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from '../programs/cache.ts';
import { output } from '../programs/command.ts';
import { ROOT } from '../programs/folder.ts';
import { Buildah, isReadable, unpackTools } from './buildah.ts';
import { debianSources, makeDebian } from './mmdebstrap.ts';

const NPM = 'npm@11.19.1';
/** As Docker's debian:12-slim has it: no documents but licences. */
const SLIM = [
  'path-exclude=/usr/share/doc/*',
  'path-include=/usr/share/doc/*/copyright',
  'path-exclude=/usr/share/locale/*',
  'path-exclude=/usr/share/man/*',
];
/** The part of node:24-bookworm that deploy/Dockerfile uses. */
const COMPILER = ['g++', 'make', 'pkg-config'];

/** Where the images are that deploy/Dockerfile is built from, and with what. */
export interface BaseImages {
  readonly key: string;
  /** The version of buildah. */
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
  const from = await debianSources();
  const hash = createHash('sha256').update(JSON.stringify([dependencies.node, from, process.arch]));
  for (const name of ['base.ts', 'buildah.ts', 'mmdebstrap.ts'])
    hash.update(await readFile(join(import.meta.dirname, name)));
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
    await makeDebian({
      from,
      mmdebstrap: join(tools, 'usr/bin/mmdebstrap'),
      packages: [],
      archive: join(debian, 'base.tar'),
      temporary: join(scratch, 'tmp'),
    });
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
