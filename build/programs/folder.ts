import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { mkdtemp, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { output } from './command.ts';

export interface Scratch {
  readonly path: string;
  remove(): Promise<void>;
}

interface ScratchOptions {
  /** Where the folder is made; default: the system's folder for temporary files. */
  readonly parent?: string;
  /**
   * Name of a cgroup that is removed as well, with all below it, once the processes in it have
   * ended.
   */
  readonly cgroup?: string;
}

/**
 * Arguments: folder, cgroup or nothing. Waits for the end of its input; a cgroup can be removed
 * only after the last of its processes.
 */
const REMOVAL = `cat >/dev/null
below() { find /sys/fs/cgroup -depth -type d '(' -path "*/$group" -o -path "*/$group/*" ')' "$@" 2>/dev/null; }
group=$2
tries=0
while [ -n "$group" ] && [ -n "$(below)" ] && [ $tries -lt 200 ]; do
  below -exec rmdir {} +
  tries=$((tries + 1))
  sleep 0.1
done
rm -rf -- "$1"`;

/**
 * A folder that is gone after remove(), and when this process dies, kill -9 included: a shell waits
 * for that, and removes it. Its name begins with `prefix` and this process's id.
 */
export async function scratchFolder(prefix: string, options: ScratchOptions = {}): Promise<Scratch> {
  const path = await mkdtemp(join(options.parent ?? tmpdir(), `${prefix}${process.pid}-`));
  // In a session of its own: ^C at the terminal is not for it.
  const guard = spawn('sh', ['-c', REMOVAL, 'sh', path, options.cgroup ?? ''], {
    detached: true,
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  const ended = once(guard, 'exit');
  // It must not keep this process alive.
  guard.unref();
  return {
    path,
    async remove() {
      guard.ref();
      guard.stdin.end();
      await ended;
    },
  };
}

/**
 * Removes the scratch folders of processes that are gone, each with its cgroup: where the shell was
 * killed as well, as everything is at the end of a container or of a machine.
 */
export async function removeAbandoned(
  parent: string,
  prefix: string,
  cgroupOf: (pid: number) => string,
): Promise<void> {
  for (const name of await readdir(parent)) {
    const pid = Number(name.startsWith(prefix) ? /^\d+(?=-)/.exec(name.slice(prefix.length)) : NaN);
    if (!(pid > 0) || existsSync(`/proc/${pid}`)) continue;
    await output(['sh', '-c', REMOVAL, 'sh', join(parent, name), cgroupOf(pid)]);
  }
}

/** The repository's root. */
export const ROOT = join(import.meta.dirname, '../..');

/** Folders that are not ours, or are made by building. */
const NOT_OURS = new Set(['node_modules', 'dist', '.git']);

/** Every file below a folder of the repository, as paths from its root, sorted. */
export function filesBelow(folder: string, root = ROOT): string[] {
  const found: string[] = [];
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (isMade(path)) continue;
    if (entry.isDirectory()) found.push(...filesBelow(path, root));
    else found.push(path);
  }
  return found.sort();
}

/** Names of the folders in a folder of the repository. */
export function foldersIn(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true })
    .filter(
      (entry) => entry.isDirectory() && !isMade(join(folder, entry.name)) && !entry.name.startsWith('.'),
    )
    .map((entry) => entry.name)
    .sort();
}

/** A folder `build` is ours at the root alone; below it there is what was built. */
function isMade(path: string): boolean {
  const name = basename(path);
  return NOT_OURS.has(name) || (name === 'build' && path !== 'build');
}
