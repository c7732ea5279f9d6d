import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Scratch {
  readonly path: string;
  remove(): Promise<void>;
}

/** A folder that is gone after remove(), and when this process dies, kill -9 included: a shell waits for that, and removes it. */
export async function scratchFolder(prefix: string): Promise<Scratch> {
  const path = await mkdtemp(join(tmpdir(), prefix));
  // In a session of its own: ^C at the terminal is not for it.
  const guard = spawn('sh', ['-c', 'cat >/dev/null; rm -rf -- "$1"', 'sh', path], {
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
