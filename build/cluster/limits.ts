/** Limits of the machine that a cluster would run into, where it would only time out. */

import { readdir, readFile, readlink, statfs } from 'node:fs/promises';
import { cacheFolder } from '../programs/cache.ts';

/** Resources that the machine has left for a cluster; sizes in bytes. */
export interface MachineLimits {
  /** fs.inotify.max_user_instances, for each user. */
  readonly inotifyInstances: number;
  /** By all processes. */
  readonly usedInstances: number;
  readonly memory: number;
  readonly disk: number;
}

const GB = 1e9;
/** A cluster with nodewall uses some 45: each kubelet six, the control plane a dozen. */
const INSTANCES = 60;
/** test/realcluster/stories.test.ts measures less than 3 GB. */
const MEMORY = 3 * GB;
/** Logs, writable layers of containers, etcd; the images are linked. */
const DISK = 2 * GB;

/** A line for each limit that is in the way, which says what to do. */
export function limitsInTheWay({ inotifyInstances, usedInstances, memory, disk }: MachineLimits): string[] {
  const problems: string[] = [];
  if (inotifyInstances - usedInstances < INSTANCES)
    problems.push(
      `fs.inotify.max_user_instances is ${inotifyInstances}, of which about ${usedInstances} are in use; ` +
        `a cluster needs ${INSTANCES}: sysctl -w fs.inotify.max_user_instances=1024`,
    );
  if (memory < MEMORY)
    problems.push(`${inGb(memory)} of memory are available; a cluster needs ${inGb(MEMORY)}`);
  if (disk < DISK)
    problems.push(
      `${inGb(disk)} are free in ${cacheFolder()}; a cluster needs ${inGb(DISK)}: free some, or set XDG_CACHE_HOME`,
    );
  return problems;
}

/** Rejects where a limit is in the way. The cache's folder must be there. */
export async function checkLimits(): Promise<void> {
  const problems = limitsInTheWay(await readLimits());
  if (problems.length > 0)
    throw new Error(
      `this machine cannot run a cluster now:\n${problems.map((one) => `  ${one}`).join('\n')}`,
    );
}

async function readLimits(): Promise<MachineLimits> {
  const instances = await readFile('/proc/sys/fs/inotify/max_user_instances', 'utf8');
  const memory = /^MemAvailable: +(\d+) kB$/m.exec(await readFile('/proc/meminfo', 'utf8'));
  const { bavail, bsize } = await statfs(cacheFolder());
  return {
    inotifyInstances: Number(instances),
    usedInstances: await countInstances(),
    memory: Number(memory?.[1]) * 1024,
    disk: bavail * bsize,
  };
}

/** Open ones of all processes; those that share one count each. */
async function countInstances(): Promise<number> {
  const processes = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const counts = await Promise.all(processes.map((id) => countOf(`/proc/${id}/fd`)));
  return counts.reduce((all, one) => all + one, 0);
}

async function countOf(folder: string): Promise<number> {
  const names = (await unlessUnreadable(readdir(folder))) ?? [];
  const links = await Promise.all(names.map((fd) => unlessUnreadable(readlink(`${folder}/${fd}`))));
  return links.filter((target) => target === 'anon_inode:inotify').length;
}

/** Null where the process has ended, or is none that root may look into. */
async function unlessUnreadable<T>(value: Promise<T>): Promise<T | null> {
  try {
    return await value;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'EACCES' || code === 'ESRCH') return null;
    throw error;
  }
}

function inGb(bytes: number): string {
  return `${(bytes / GB).toFixed(1)} GB`;
}
