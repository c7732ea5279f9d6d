/** Builds the C probe when its source is newer than the program, and gives its path. */
import { execFile } from 'node:child_process';
import { mkdir, readdir, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const folder = import.meta.dirname;
const build = join(folder, 'build');

let builds = 0;

/** The path of an up-to-date probe program. Safe to call several times at once, from several processes too. */
export async function probeProgram(): Promise<string> {
  const program = join(build, 'probe');
  const sources = (await readdir(folder)).filter((name) => /\.[ch]$/.test(name)).sort();
  const changed = Math.max(...(await Promise.all(sources.map((name) => modified(join(folder, name))))));
  if ((await modified(program)) >= changed) return program;
  await mkdir(build, { recursive: true });
  // Compiled beside and renamed: nobody ever starts a half-written program.
  const fresh = join(build, `probe.${process.pid}.${builds++}`);
  const files = sources.filter((name) => name.endsWith('.c')).map((name) => join(folder, name));
  const flags = ['-std=gnu11', '-D_GNU_SOURCE', '-O2', '-Wall', '-Wextra'];
  await promisify(execFile)('cc', [...flags, '-o', fresh, ...files]);
  await rename(fresh, program);
  return program;
}

async function modified(path: string): Promise<number> {
  try {
    return (await stat(path)).mtimeMs;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0;
    throw error;
  }
}
