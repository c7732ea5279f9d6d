/** Kernels of Debian's suites, each unpacked once and kept in the cache; nothing is installed. */

import { createHash } from 'node:crypto';
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { withDebianSuite } from '../../build/images/debian-suite.ts';
import type { MatrixKernel } from '../../build/manifests/compatibility/matrix.ts';
import { cached } from '../../build/programs/cache.ts';
import { output, run, unpackDebianPackage } from '../../build/programs/command.ts';

export interface GuestKernel extends Pick<MatrixKernel, 'processor'> {
  readonly image: string;
  /** The folder that belongs at /usr/lib/modules. */
  readonly modules: string;
  readonly initrd: string;
}

const INIT = join(import.meta.dirname, 'init');
/** Modules to reach a root with; a kernel may have some built in. */
const TO_ROOT = ['virtio_pci', 'virtiofs', '9pnet_virtio', '9p', 'overlay', 'virtio_blk', 'ext4'];

/** The suite's kernel, from where this machine gets its own Debian: the first time some minutes. */
export async function guestKernel({ name, debian, processor }: MatrixKernel): Promise<GuestKernel> {
  const hash = createHash('sha256').update(name);
  for (const file of [import.meta.filename, INIT]) hash.update(await readFile(file));
  const key = `${name}-${hash.digest('hex').slice(0, 16)}`;
  const folder = await cached('guestkernel', key, async (fresh) => {
    process.stderr.write(`guests: fetching the kernel of Debian ${debian}, ${processor}, once\n`);
    const unpacked = join(fresh, 'unpacked');
    await withDebianSuite({ suite: debian, processor }, async (apt) => {
      await unpackKernel(`linux-image-${processor}`, { apt, unpacked, folder: fresh });
      await unpackDebianPackage('busybox-static', join(unpacked, 'busybox'), apt);
    });
    await makeInitrd(unpacked, fresh);
    await rm(unpacked, { recursive: true });
  });
  return {
    processor,
    image: join(folder, 'vmlinuz'),
    modules: join(folder, 'lib/modules'),
    initrd: join(folder, 'initrd.gz'),
  };
}

interface Unpacking {
  /** Options for apt. */
  readonly apt: readonly string[];
  /** Folder for whole packages. */
  readonly unpacked: string;
  /** Gets `vmlinuz` and `lib/modules`. */
  readonly folder: string;
}

/** Unpacks the kernel that a package without files depends on. */
async function unpackKernel(name: string, { apt, unpacked, folder }: Unpacking): Promise<void> {
  const depends = await output(['apt-cache', ...apt, 'depends', name]);
  const image = /Depends: (linux-image-\d\S+)/.exec(depends)?.[1];
  if (image === undefined) throw new Error(`${name} names no image:\n${depends}`);
  // From 7.x on the image's package is empty, and needs one of the kernel and one of the modules.
  const parts = await output(['apt-cache', ...apt, 'depends', image]);
  const names = [...parts.matchAll(/Depends: (linux-(?:binary|modules)-\S+)/g)].map(([, part]) => part ?? '');
  for (const part of [image, ...names]) await unpackDebianPackage(part, unpacked, apt);
  const modules = await firstThere(join(unpacked, 'usr/lib/modules'), join(unpacked, 'lib/modules'));
  const [release = ''] = await readdir(modules);
  const boot = await firstThere(join(unpacked, `boot/vmlinuz-${release}`), join(modules, release, 'vmlinuz'));
  await cp(boot, join(folder, 'vmlinuz'));
  await mkdir(join(folder, 'lib'));
  await output(['mv', modules, join(folder, 'lib/modules')]);
  await output(['depmod', '-b', folder, release]);
}

/** A first root of busybox and what `init` needs: it mounts the machine's files. */
async function makeInitrd(scratch: string, folder: string): Promise<void> {
  const root = join(scratch, 'initrd');
  for (const name of ['bin', 'modules', 'dev', 'proc', 'lower', 'writes', 'root'])
    await mkdir(join(root, name), { recursive: true });
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
