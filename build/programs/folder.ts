import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

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
const GUARD = `cat >/dev/null
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
 * for that, and removes it.
 */
export async function scratchFolder(prefix: string, options: ScratchOptions = {}): Promise<Scratch> {
  const path = await mkdtemp(join(options.parent ?? tmpdir(), prefix));
  // In a session of its own: ^C at the terminal is not for it.
  const guard = spawn('sh', ['-c', GUARD, 'sh', path, options.cgroup ?? ''], {
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
