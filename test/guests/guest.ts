/** Runs commands in qemu guests with another kernel and this machine's files. */
import { access, constants, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Finished } from '../../build/programs/command.ts';
import { daemon } from '../cluster/daemon.ts';
import { arm64Files, type GuestFiles } from './files.ts';
import type { GuestKernel } from './kernel.ts';

const MEMORY = '3072M';
/** Debian 12 and Debian 13 have it in these places; it comes with qemu, or is a package. */
const VIRTIOFSD = ['/usr/lib/qemu/virtiofsd', '/usr/libexec/virtiofsd'];
const POLL_MS = 100;
const BY_PROCESSOR = ['-accel', 'kvm', '-cpu', 'host', '-smp', '2'];
/**
 * The clock of an emulated guest counts instructions while it computes, 10⁹ a second: a busy
 * machine makes it slow, and no test late. Linux 5.10 does not boot so with two processors.
 */
const EMULATED = ['-accel', 'tcg,thread=single,tb-size=512', '-icount', 'shift=0', '-smp', '1'];
const MACHINES = {
  amd64: {
    program: 'qemu-system-x86_64',
    machine: 'q35',
    // The kernel would measure its clock by the machine's.
    emulated: { cpu: 'max', words: ['tsc_early_khz=1000000', 'tsc=reliable'] },
    words: ['console=ttyS0', 'edd=off'],
  },
  arm64: {
    program: 'qemu-system-aarch64',
    machine: 'virt',
    emulated: { cpu: 'cortex-a72', words: [] },
    words: ['console=ttyAMA0'],
  },
} as const;
/** Of this machine, in Debian's words. */
const OWN_PROCESSOR = process.arch === 'x64' ? 'amd64' : 'arm64';

interface GuestOptions {
  /** Commands of sh, run by root in `/`. */
  readonly script: string;
  /** The guest is ended after that time. */
  readonly limitMs: number;
  /** Folders beside the checkout that a guest with processors of another kind needs. */
  readonly folders?: readonly string[];
}

interface GuestResult extends Finished {
  /** What the script left in `/run/job/counts`; '' where it left nothing. */
  readonly counts: string;
}

/**
 * Boots a guest, runs the script in it and waits for its end. The guest sees this machine's files
 * at their places; what it writes is gone with it. Rejects with the console's last lines where the
 * script does not end in time. Nothing is left, and kill -9 of this process ends both programs.
 */
export async function runInGuest(
  kernel: GuestKernel,
  { script, limitMs, folders = [] }: GuestOptions,
): Promise<GuestResult> {
  const folder = await mkdtemp(join(tmpdir(), 'nodewall-guest-'));
  const job = join(folder, 'job');
  const socket = join(folder, 'root.socket');
  const consoleFile = join(folder, 'console');
  const files = daemon({ name: 'virtiofsd', argv: await virtiofsd(socket), logFile: join(folder, 'files') });
  const isEmulated = await isGuestEmulated(kernel.processor);
  const shared = kernel.processor === OWN_PROCESSOR ? OWN_FILES : await arm64Files(folders);
  const argv = qemu(kernel, { job, socket, isEmulated, shared });
  const guest = daemon({ name: 'qemu', argv, logFile: consoleFile });
  try {
    await mkdir(job);
    await writeFile(join(job, 'command'), script);
    await files.start();
    const end = Date.now() + limitMs;
    while (!(await isThere(socket)) && files.isRunning() && Date.now() < end) await sleep(POLL_MS);
    if (!files.isRunning()) throw new Error(`virtiofsd ended:\n${await files.log()}`);
    await guest.start();
    while (guest.isRunning() && Date.now() < end) await sleep(POLL_MS);
    const isLate = guest.isRunning();
    const status = await textOf(join(job, 'status'));
    if (status === '') {
      const why = isLate ? `did not end within ${limitMs} ms` : 'ended without a status';
      const said = (await textOf(join(job, 'stdout'))) + (await textOf(join(job, 'stderr')));
      throw new Error(`the guest ${why}:\n${await guest.log()}\n${said}`);
    }
    return {
      code: Number(status),
      stdout: await textOf(join(job, 'stdout')),
      stderr: await textOf(join(job, 'stderr')),
      counts: await textOf(join(job, 'counts')),
    };
  } finally {
    await guest.stop('SIGKILL');
    await files.stop('SIGKILL');
    await rm(folder, { recursive: true });
  }
}

const OWN_FILES: GuestFiles = { root: '/', shown: [] };

async function virtiofsd(socket: string): Promise<readonly string[]> {
  for (const program of VIRTIOFSD)
    if (await isThere(program))
      return [program, `--socket-path=${socket}`, '-o', 'source=/,cache=always,sandbox=chroot'];
  throw new Error('guests need virtiofsd: apt-get install qemu-system-x86, on Debian 13 virtiofsd too');
}

interface Machine {
  readonly job: string;
  readonly socket: string;
  readonly isEmulated: boolean;
  readonly shared: GuestFiles;
}

function qemu(kernel: GuestKernel, { job, socket, isEmulated, shared }: Machine): readonly string[] {
  const words = [
    ...[`modules=${kernel.modules}`, `system=${shared.root}`],
    ...shared.shown.map(({ path, over }) => `show=${over === undefined ? path : `${path}:${over}`}`),
  ];
  const devices = [
    // virtiofsd reads and writes the guest's memory itself.
    ...['-object', `memory-backend-memfd,id=memory,size=${MEMORY},share=on`, '-numa', 'node,memdev=memory'],
    ...['-chardev', `socket,id=files,path=${socket}`, '-device', 'vhost-user-fs-pci,chardev=files,tag=root'],
    ...['-virtfs', `local,path=${job},mount_tag=job,security_model=none`],
  ];
  return qemuCommand(kernel, { isEmulated, words, devices });
}

interface QemuOptions {
  readonly isEmulated: boolean;
  /** Of the kernel's command line, for `init`. */
  readonly words: readonly string[];
  /** Arguments of qemu. */
  readonly devices: readonly string[];
}

/** The command that runs a guest with this kernel; its console is standard output. */
export function qemuCommand(
  { processor, image, initrd }: GuestKernel,
  { isEmulated, words, devices }: QemuOptions,
): readonly string[] {
  const { program, machine, emulated, words: own } = MACHINES[processor];
  const commandLine = [
    ...own,
    ...['panic=1', 'loglevel=4', 'audit=0', 'mitigations=off', 'nokaslr', 'random.trust_cpu=on'],
    ...['cryptomgr.notests', ...words, ...(isEmulated ? emulated.words : [])],
  ];
  return [
    program,
    ...(isEmulated ? [...EMULATED, '-cpu', emulated.cpu] : BY_PROCESSOR),
    ...['-machine', machine, '-m', MEMORY, '-nodefaults', '-no-reboot'],
    ...['-display', 'none', '-serial', 'stdio', '-device', 'virtio-rng-pci', ...devices],
    ...['-kernel', image, '-initrd', initrd, '-append', commandLine.join(' ')],
  ];
}

/**
 * Whether Debian's kernels cannot run by the processor itself. /dev/kvm alone does not tell:
 * kvm_pvm has it and runs kernels that were made for it alone.
 */
export async function isGuestEmulated(processor: GuestKernel['processor']): Promise<boolean> {
  if (processor !== OWN_PROCESSOR) return true;
  const hasModule = (await isThere('/sys/module/kvm_intel')) || (await isThere('/sys/module/kvm_amd'));
  return !hasModule || !(await isThere('/dev/kvm', constants.R_OK | constants.W_OK));
}

async function isThere(path: string, mode = constants.F_OK): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  );
}

/** '' where it isn't there. */
async function textOf(path: string): Promise<string> {
  return readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
}
