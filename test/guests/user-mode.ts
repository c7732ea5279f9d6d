/**
 * Kernels of Debian's suites as programs of this machine (user-mode Linux,
 * https://docs.kernel.org/virt/uml/user_mode_linux_howto_v2.html): made of the suite's source, with
 * the suite's options for networks, once each, and kept in the cache.
 */
import { createHash } from 'node:crypto';
import { appendFile, copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { withDebianSuite } from '../../build/images/debian-suite.ts';
import type { MatrixKernel } from '../../build/manifests/compatibility/matrix.ts';
import { cached } from '../../build/programs/cache.ts';
import { output, unpackDebianPackage } from '../../build/programs/command.ts';
import { GUEST_MEMORY } from './qemu.ts';

/** A program that is the kernel, and its modules. */
export interface UserModeKernel {
  readonly program: string;
  /** The folder that belongs at /usr/lib/modules. */
  readonly modules: string;
}

const INIT = join(import.meta.dirname, 'init-user-mode');

/** Options that are as Debian's kernels for amd64 have them, built in or modules. */
const AS_DEBIAN = new RegExp(
  `^CONFIG_(?:${[
    ...['NET', 'NETFILTER', 'NETLINK', 'NF', 'NFT', 'IP', 'IP6', 'IPV6', 'INET', 'INET6', 'TCP', 'SCTP'],
    ...['UNIX', 'PACKET', 'BRIDGE', 'LLC', 'STP', 'XFRM', 'XFRM6', 'OPENVSWITCH', 'VXLAN', 'GENEVE', 'VETH'],
    ...['TUN', 'DUMMY', 'IFB', 'VLAN', 'WIREGUARD', 'IPVLAN', 'MACVLAN', 'BONDING'],
    ...['[A-Z]+_NS', 'NAMESPACES', 'CGROUP', 'CGROUPS', 'MEMCG', 'CPUSETS', 'BPF', 'SECCOMP', 'AUDIT'],
    ...['AUDITSYSCALL', 'POSIX', 'TMPFS', 'OVERLAY', 'INOTIFY', 'FANOTIFY', 'KEYS', 'PROC'],
    // For IPsec; WireGuard brings its own.
    'CRYPTO_(?:AES|GCM|CBC|CTR|GHASH|HMAC|SHA1|SHA256|SEQIV|ECHAINIV|AUTHENC)',
  ].join('|')})[_=]`,
);
/** Hardware, and what the options above would bring that no suite asks for. */
const NOT_BUILT = /_VENDOR_|_(?:9P|DSA|IPGRE_BROADCAST|DROP_MONITOR)\b/;
/** Beside those: this machine's files for a root; nothing for debuggers. */
const OWN_OPTIONS = `CONFIG_HOSTFS=y
CONFIG_OVERLAY_FS=y
CONFIG_MAGIC_SYSRQ=y
CONFIG_DEBUG_INFO_NONE=y
# CONFIG_DEBUG_INFO is not set
# CONFIG_DEBUG_INFO_BTF is not set
# CONFIG_DEBUG_KERNEL is not set
# CONFIG_SOUND is not set
# CONFIG_WIRELESS is not set
# CONFIG_WLAN is not set
`;

/** The suite's kernel: the first time ten minutes of two processors. */
export async function userModeKernel({ name, debian }: MatrixKernel): Promise<UserModeKernel> {
  const hash = createHash('sha256').update(name);
  hash.update(await readFile(import.meta.filename));
  const key = `${name}-${hash.digest('hex').slice(0, 16)}`;
  const folder = await cached('usermodekernel', key, async (fresh) => {
    process.stderr.write(`guests: making the kernel of Debian ${debian}, once: ten minutes\n`);
    const scratch = await mkdtemp(join(tmpdir(), 'nodewall-kernel-'));
    try {
      await unpackSource(debian, scratch);
      await build(scratch, fresh);
    } finally {
      await rm(scratch, { recursive: true });
    }
  });
  return { program: join(folder, 'linux'), modules: join(folder, 'lib/modules') };
}

/** Leaves the source in `source`, and Debian's options in `config`. */
async function unpackSource(debian: string, scratch: string): Promise<void> {
  await withDebianSuite({ suite: debian, processor: 'amd64' }, async (apt) => {
    const depends = await output(['apt-cache', ...apt, 'depends', 'linux-source']);
    const version = /Depends: linux-source-(\S+)/.exec(depends)?.[1];
    if (version === undefined) throw new Error(`linux-source names no version:\n${depends}`);
    for (const part of ['source', 'config'])
      await unpackDebianPackage(`linux-${part}-${version}`, scratch, apt);
    const from = join(scratch, 'usr/src');
    await output(['tar', '-xf', join(from, `linux-source-${version}.tar.xz`), '-C', scratch]);
    await output(['mv', join(scratch, `linux-source-${version}`), join(scratch, 'source')]);
    const config = join(from, `linux-config-${version}`, 'config.amd64_none_amd64.xz');
    await copyFile(config, join(scratch, 'config.xz'));
  });
  await output(['xz', '--decompress', join(scratch, 'config.xz')]);
}

/** Leaves `linux` and `lib/modules` in the folder. */
async function build(scratch: string, folder: string): Promise<void> {
  const source = join(scratch, 'source');
  const make = (...args: readonly string[]) => output(['make', '-s', '-C', source, 'ARCH=um', ...args]);
  await make('x86_64_defconfig');
  const debian = await readFile(join(scratch, 'config'), 'utf8');
  const lines = debian.split('\n').filter((line) => AS_DEBIAN.test(line) && !NOT_BUILT.test(line));
  // Of two lines for one option the later one holds.
  await appendFile(join(source, '.config'), `${lines.join('\n')}\n${OWN_OPTIONS}`);
  await make('olddefconfig');
  await letOverlaysOpen(join(source, 'fs/hostfs/hostfs_kern.c'));
  await make(`-j${availableParallelism() + 1}`, 'linux', 'modules');
  await make('modules_install', `INSTALL_MOD_PATH=${folder}`, 'INSTALL_MOD_STRIP=1');
  await copyFile(join(source, 'linux'), join(folder, 'linux'));
}

/** Linux 5.10 takes the path of an overlay for the one of a file below it; later ones do not. */
async function letOverlaysOpen(file: string): Promise<void> {
  const text = await readFile(file, 'utf8');
  if (text.includes('file_dentry(file)')) return;
  await writeFile(file, text.replaceAll('file->f_path.dentry', 'file_dentry(file)'));
}

interface Places {
  readonly job: string;
  /** The program that is started at last. */
  readonly start: string;
}

/** The command that runs a guest; all its processes end with the first. */
export function userModeCommand(
  { program, modules }: UserModeKernel,
  { job, start }: Places,
): readonly string[] {
  return [
    ...['unshare', '--pid', '--fork', '--kill-child'],
    // Its memory is a file there.
    ...['env', 'TMPDIR=/dev/shm', program, `mem=${GUEST_MEMORY}`],
    ...['rootfstype=hostfs', 'rootflags=/', 'ro', `init=${INIT}`],
    ...[`modules=${modules}`, `start=${start}`, `job=hostfs:${job}`],
    // From Linux 6.16 on system calls are caught by seccomp, faster than by ptrace.
    ...['con0=null,fd:1', 'con1=null', 'con=null', 'panic=1', 'loglevel=4', 'seccomp=auto'],
  ];
}
