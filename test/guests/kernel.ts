/** Kernels of Debian's suites, each unpacked once and kept in the cache; nothing is installed. */

import { createHash } from 'node:crypto';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { debianSources } from '../../build/images/mmdebstrap.ts';
import type { KERNELS } from '../../build/manifests/compatibility/matrix.ts';
import { cached } from '../../build/programs/cache.ts';
import { output, run, unpackDebianPackage } from '../../build/programs/command.ts';

type Suite = (typeof KERNELS)[number]['debian'];

export interface GuestKernel {
  readonly image: string;
  /** The folder that belongs at /usr/lib/modules. */
  readonly modules: string;
  readonly initrd: string;
}

const INIT = join(import.meta.dirname, 'init');
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';
/** Modules to reach the root with; a kernel may have some built in. */
const TO_ROOT = ['virtio_pci', 'virtiofs', '9pnet_virtio', '9p', 'overlay'];

/** The suite's kernel, from where this machine gets its own Debian: the first time some minutes. */
export async function guestKernel(suite: Suite): Promise<GuestKernel> {
  const hash = createHash('sha256').update(suite);
  for (const file of [import.meta.filename, INIT]) hash.update(await readFile(file));
  const key = `${suite}-${hash.digest('hex').slice(0, 16)}`;
  const folder = await cached('guestkernel', key, async (fresh) => {
    process.stderr.write(`guests: fetching the kernel of Debian ${suite}, once\n`);
    const unpacked = await unpackKernel(suite, fresh);
    await makeInitrd(unpacked, fresh);
    await rm(unpacked, { recursive: true });
  });
  return {
    image: join(folder, 'vmlinuz'),
    modules: join(folder, 'lib/modules'),
    initrd: join(folder, 'initrd.gz'),
  };
}

/** Puts `vmlinuz` and `lib/modules` into the folder. Returns a folder that has more. */
async function unpackKernel(suite: Suite, folder: string): Promise<string> {
  const unpacked = join(folder, 'unpacked');
  await withApt(suite, async (apt) => {
    const depends = await output(['apt-cache', ...apt, 'depends', 'linux-image-amd64']);
    const image = /Depends: (linux-image-\d\S+)/.exec(depends)?.[1];
    if (image === undefined)
      throw new Error(`linux-image-amd64 of Debian ${suite} names no image:\n${depends}`);
    // From 7.x on the image's package is empty, and needs one of the kernel and one of the modules.
    const parts = await output(['apt-cache', ...apt, 'depends', image]);
    const names = [...parts.matchAll(/Depends: (linux-(?:binary|modules)-\S+)/g)].map(
      ([, name]) => name ?? '',
    );
    for (const name of [image, ...names]) await unpackDebianPackage(name, unpacked, apt);
  });
  const modules = await firstThere(join(unpacked, 'usr/lib/modules'), join(unpacked, 'lib/modules'));
  const [release = ''] = await readdir(modules);
  const boot = await firstThere(join(unpacked, `boot/vmlinuz-${release}`), join(modules, release, 'vmlinuz'));
  await cp(boot, join(folder, 'vmlinuz'));
  await mkdir(join(folder, 'lib'));
  await output(['mv', modules, join(folder, 'lib/modules')]);
  await output(['depmod', '-b', folder, release]);
  return unpacked;
}

/** Runs something with options for apt, by which it knows the packages of the suite alone. */
async function withApt(suite: Suite, body: (options: readonly string[]) => Promise<void>): Promise<void> {
  const { sources } = await debianSources();
  const mirror = /^deb (\S+) bookworm main$/m.exec(sources)?.[1];
  if (mirror === undefined) throw new Error('kernels of guests need a Debian 12 with apt sources');
  const scratch = await mkdtemp(join(tmpdir(), 'nodewall-apt-'));
  try {
    const list = join(scratch, 'sources.list');
    await writeFile(list, `deb [signed-by=${KEYRING}] ${mirror} ${suite} main\n`);
    await mkdir(join(scratch, 'lists/partial'), { recursive: true });
    const settings = {
      'Dir::Etc::SourceList': list,
      'Dir::Etc::SourceParts': '/dev/null',
      'Dir::State::Lists': join(scratch, 'lists'),
      'Dir::Cache::pkgcache': '',
      'Dir::Cache::srcpkgcache': '',
      'APT::Sandbox::User': 'root',
      'Acquire::Languages': 'none',
    };
    const options = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
    await output(['apt-get', ...options, 'update', '-qq']);
    await body(options);
  } finally {
    await rm(scratch, { recursive: true });
  }
}

/** A first root of busybox and what `init` needs: it mounts the machine's files. */
async function makeInitrd(scratch: string, folder: string): Promise<void> {
  const root = join(scratch, 'initrd');
  for (const name of ['bin', 'modules', 'dev', 'proc', 'lower', 'writes', 'root'])
    await mkdir(join(root, name), { recursive: true });
  await unpackDebianPackage('busybox-static', join(scratch, 'busybox'));
  await cp(await firstThere(...busyboxIn(scratch)), join(root, 'bin/busybox'));
  await cp(INIT, join(root, 'init'));
  const [release = ''] = await readdir(join(folder, 'lib/modules'));
  const order = new Set<string>();
  for (const module of TO_ROOT) {
    const shown = await run(['modprobe', '-d', folder, '-S', release, '--show-depends', module]);
    for (const [, path = ''] of shown.stdout.matchAll(/^insmod (\S+)/gm)) order.add(path);
  }
  for (const path of order) {
    await cp(path, join(root, 'modules', basename(path)));
    if (path.endsWith('.xz')) await output(['xz', '-d', join(root, 'modules', basename(path))]);
  }
  const names = [...order].map((path) => basename(path).replace(/\.xz$/, ''));
  await writeFile(join(root, 'modules/order'), `${names.join('\n')}\n`);
  const pack = 'find . | cpio -o -H newc --quiet | gzip -1 > "$1"';
  await output(['sh', '-c', pack, 'sh', join(folder, 'initrd.gz')], { cwd: root });
}

const busyboxIn = (scratch: string) =>
  ['bin', 'usr/bin'].map((bin) => join(scratch, 'busybox', bin, 'busybox'));

async function firstThere(...paths: readonly string[]): Promise<string> {
  for (const path of paths) {
    const { code } = await run(['test', '-e', path]);
    if (code === 0) return path;
  }
  throw new Error(`none of these is there: ${paths.join(', ')}`);
}
