import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { cached } from '../../build/programs/cache.ts';
import { output, run, unpackDebianPackage } from '../../build/programs/command.ts';

const PACKAGE = 'prometheus';

/** Folder with `promtool` and `prometheus` of this machine's Debian; 19 MB are downloaded once. */
export async function debianPrometheus(): Promise<string> {
  const version = await output(['apt-cache', 'policy', PACKAGE]);
  const candidate = /Candidate: (\S+)/.exec(version)?.[1] ?? '';
  const key = createHash('sha256').update(candidate).digest('hex').slice(0, 16);
  const folder = await cached('debianprometheus', key, (fresh) => unpackDebianPackage(PACKAGE, fresh));
  return join(folder, 'usr/bin');
}

/** To ask apt takes a second. */
let found: Promise<string> | null = null;

/** Runs it, whatever its exit status. */
export async function promtool(args: readonly string[], input = ''): ReturnType<typeof run> {
  found ??= debianPrometheus();
  const command = join(await found, 'promtool');
  return await run([command, ...args], { stdin: input });
}
