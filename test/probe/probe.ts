import { execFile } from 'node:child_process';
import { mkdir, readdir, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** The path of an up-to-date probe program. */
export function probeProgram(): Promise<string> {
  return cProgram(import.meta.dirname, 'probe');
}

let builds = 0;

/**
 * The program that the C files of a folder make, `build/NAME` in it; built where one of them, or a
 * header, is newer. `libraries` are names for -l. Safe to call several times at once, from several
 * processes too.
 */
export async function cProgram(
  folder: string,
  name: string,
  libraries: readonly string[] = [],
): Promise<string> {
  const build = join(folder, 'build');
  const program = join(build, name);
  const sources = (await readdir(folder)).filter((file) => /\.[ch]$/.test(file)).sort();
  const changed = Math.max(...(await Promise.all(sources.map((file) => modified(join(folder, file))))));
  if ((await modified(program)) >= changed) return program;
  await mkdir(build, { recursive: true });
  // Compiled beside and renamed: nobody ever starts a half-written program.
  const fresh = `${program}.${process.pid}.${builds++}`;
  const files = sources.filter((file) => file.endsWith('.c')).map((file) => join(folder, file));
  const flags = ['-std=gnu11', '-D_GNU_SOURCE', '-O2', '-Wall', '-Wextra'];
  await promisify(execFile)('cc', [...flags, '-o', fresh, ...files, ...libraries.map((one) => `-l${one}`)]);
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
