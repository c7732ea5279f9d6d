import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { output } from './command.ts';

export interface Scratch {
  readonly path: string;
  remove(): Promise<void>;
}

export interface ScratchOptions {
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
