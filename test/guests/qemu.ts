/** Guests by qemu: the commands that run them. */
import { access, constants } from 'node:fs/promises';
import { arm64Files, type GuestFiles } from './files.ts';
import type { GuestKernel } from './kernel.ts';

export const GUEST_MEMORY = '3072M';
/** Debian 12 and Debian 13 have it in these places; it comes with qemu, or is a package. */
const VIRTIOFSD = ['/usr/lib/qemu/virtiofsd', '/usr/libexec/virtiofsd'];
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
export const OWN_PROCESSOR = process.arch === 'x64' ? 'amd64' : 'arm64';
const OWN_FILES: GuestFiles = { root: '/', shown: [] };

/** The program that gives a guest this machine's files through the socket. */
export async function filesCommand(socket: string): Promise<readonly string[]> {
  for (const program of VIRTIOFSD)
    if (await isThere(program))
      return [program, `--socket-path=${socket}`, '-o', 'source=/,cache=always,sandbox=chroot'];
  throw new Error('guests need virtiofsd: apt-get install qemu-system-x86, on Debian 13 virtiofsd too');
}

interface Places {
  readonly job: string;
  /** Of filesCommand. */
  readonly socket: string;
  /** The program that is started at last, seen by the guest. */
  readonly start: string;
  /** Folders beside the checkout that a guest with processors of another kind needs. */
  readonly folders: readonly string[];
}

/** The command that runs a guest with this machine's files. */
export async function guestCommand(
  kernel: GuestKernel,
  { job, socket, start, folders }: Places,
): Promise<readonly string[]> {
  const isEmulated = await isGuestEmulated(kernel.processor);
  const shared = kernel.processor === OWN_PROCESSOR ? OWN_FILES : await arm64Files(folders);
  const words = [
    ...[`modules=${kernel.modules}`, `system=${shared.root}`, `start=${start}`],
    'job=9p:trans=virtio,version=9p2000.L',
    ...shared.shown.map(({ path, over }) => `show=${over === undefined ? path : `${path}:${over}`}`),
  ];
  const devices = [
    // virtiofsd reads and writes the guest's memory itself.
    ...[
      '-object',
      `memory-backend-memfd,id=memory,size=${GUEST_MEMORY},share=on`,
      '-numa',
      'node,memdev=memory',
    ],
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
    ...['-machine', machine, '-m', GUEST_MEMORY, '-nodefaults', '-no-reboot'],
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

export async function isThere(path: string, mode = constants.F_OK): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  );
}
