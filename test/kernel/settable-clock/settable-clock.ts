import { execFile } from 'node:child_process';
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** A program whose own time of day can be set while it runs; that of the machine stays. */
export interface SettableClock {
  /** Starts the program with its arguments. */
  readonly program: string;
  /** Seconds ahead of the machine's time; negative: behind. */
  set(seconds: number): Promise<void>;
  close(): Promise<void>;
}

export async function settableClock(program: string): Promise<SettableClock> {
  const folder = await mkdtemp(join(tmpdir(), 'nodewall-clock-'));
  const [library, file, script] = ['clock.so', 'offset', 'program'].map((name) => join(folder, name));
  if (library === undefined || file === undefined || script === undefined) throw new Error('no paths');
  const source = join(import.meta.dirname, 'settable-clock.c');
  const flags = ['-std=gnu11', '-D_GNU_SOURCE', '-O2', '-Wall', '-Wextra', '-shared', '-fPIC'];
  await promisify(execFile)('cc', [...flags, '-o', library, source, '-ldl']);
  await writeFile(file, bytesOf(0));
  const environment = `NODEWALL_CLOCK_FILE='${file}' LD_PRELOAD='${library}'`;
  await writeFile(script, `#!/bin/sh\n${environment} exec '${program}' "$@"\n`, { mode: 0o755 });
  return {
    program: script,
    async set(seconds) {
      // In place: the process has mapped it.
      const handle = await open(file, 'r+');
      await handle.write(bytesOf(seconds), 0, 8, 0);
      await handle.close();
    },
    close: () => rm(folder, { recursive: true, force: true }),
  };
}

function bytesOf(seconds: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(BigInt(seconds));
  return bytes;
}
