/** Runs commands in guests with another kernel and this machine's files. */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { MatrixKernel } from '../../build/manifests/compatibility/matrix.ts';
import type { Cell } from '../../build/manifests/compatibility/results.ts';
import type { Finished } from '../../build/programs/command.ts';
import { type Daemon, daemon } from '../cluster/daemon.ts';
import { guestKernel } from './kernel.ts';
import { filesCommand, guestCommand, isGuestEmulated, isThere, OWN_PROCESSOR } from './qemu.ts';
import { userModeCommand, userModeKernel } from './user-mode.ts';

const POLL_MS = 100;
const START = join(import.meta.dirname, 'start');

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

/** How guests with this kernel run here. */
export async function howGuestRuns({ processor }: MatrixKernel): Promise<Cell['guest']> {
  if (!(await isGuestEmulated(processor))) return 'virtual';
  return processor === 'amd64' && OWN_PROCESSOR === processor ? 'user mode' : 'emulated';
}

/** Makes the kernel, where it is not in the cache: minutes. */
export async function prepareGuest(kernel: MatrixKernel): Promise<void> {
  if ((await howGuestRuns(kernel)) === 'user mode') await userModeKernel(kernel);
  else await guestKernel(kernel);
}

/**
 * Boots a guest, runs the script in it and waits for its end. The guest sees this machine's files
 * at their places; what it writes is gone with it. Rejects with the console's last lines where the
 * script does not end in time. Nothing is left, and kill -9 of this process ends all programs.
 */
export async function runInGuest(
  kernel: MatrixKernel,
  { script, limitMs, folders = [] }: GuestOptions,
): Promise<GuestResult> {
  const folder = await mkdtemp(join(tmpdir(), 'nodewall-guest-'));
  const job = join(folder, 'job');
  const daemons: Daemon[] = [];
  try {
    await mkdir(job);
    await writeFile(join(job, 'command'), script);
    const end = Date.now() + limitMs;
    let argv: readonly string[];
    if ((await howGuestRuns(kernel)) === 'user mode') {
      argv = userModeCommand(await userModeKernel(kernel), { job, start: START });
    } else {
      const socket = join(folder, 'root.socket');
      argv = await guestCommand(await guestKernel(kernel), { job, socket, start: START, folders });
      daemons.push(await shareFiles(socket, { folder, end }));
    }
    const guest = daemon({ name: 'guest', argv, logFile: join(folder, 'console') });
    daemons.unshift(guest);
    await guest.start();
    // In user mode such a kernel goes on running, without doing anything.
    const isDead = async () => (await guest.log(200)).includes('Kernel panic');
    while (guest.isRunning() && Date.now() < end && !(await isDead())) await sleep(POLL_MS);
    const isLate = Date.now() >= end;
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
    for (const each of daemons) await each.stop('SIGKILL');
    await rm(folder, { recursive: true });
  }
}

/** Starts the program that gives qemu this machine's files, and waits for its socket. */
async function shareFiles(socket: string, { folder, end }: { folder: string; end: number }): Promise<Daemon> {
  const files = daemon({
    name: 'virtiofsd',
    argv: await filesCommand(socket),
    logFile: join(folder, 'files'),
  });
  await files.start();
  while (!(await isThere(socket)) && files.isRunning() && Date.now() < end) await sleep(POLL_MS);
  if (!files.isRunning()) throw new Error(`virtiofsd ended:\n${await files.log()}`);
  return files;
}

/** '' where it isn't there. */
async function textOf(path: string): Promise<string> {
  return readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
}
