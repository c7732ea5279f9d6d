import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { ifAbsent } from '../../lib/process/state-file.ts';

/** Days after which an unused file is removed when a new one of its kind is made. */
const KEPT_DAYS = 30;

/**
 * Where what is made once is kept: outside the tree, for all checkouts (XDG Base Directory
 * Specification).
 */
export function cacheFolder(): string {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'nodewall');
}

/**
 * The folder `KIND-KEY` of the cache. Where it isn't there, `make` fills an empty folder, which
 * then takes its place: nobody ever sees a half-made one. Of several processes one makes it, the
 * others wait.
 */
export async function cached(
  kind: string,
  key: string,
  make: (folder: string) => Promise<void>,
  keptDays = KEPT_DAYS,
): Promise<string> {
  const root = cacheFolder();
  const folder = join(root, `${kind}-${key}`);
  if (await isThere(folder)) {
    await touch(folder);
    return folder;
  }
  await mkdir(root, { recursive: true });
  const unlock = await lock(join(root, `${kind}.lock`));
  try {
    if (await isThere(folder)) return folder;
    const fresh = await mkdtemp(join(root, `.making-${kind}-`));
    try {
      await make(fresh);
      // Unpacking gives it the time that the package was made.
      await touch(fresh);
      await rename(fresh, folder);
    } finally {
      await rm(fresh, { recursive: true, force: true });
    }
    await removeOld(root, kind, keptDays);
    return folder;
  } finally {
    await unlock();
  }
}

/**
 * flock(1) holds the lock as long as its input is open: it is free again however we end, kill -9
 * included.
 */
async function lock(file: string): Promise<() => Promise<void>> {
  const holder = spawn('flock', [file, 'sh', '-c', 'echo; exec cat'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(holder, 'exit');
  const isLocked = await Promise.race([
    once(holder.stdout, 'data').then(() => true),
    ended.then(() => false),
  ]);
  if (!isLocked) throw new Error(`flock ${file} failed`);
  return async () => {
    holder.stdin.end();
    await ended;
  };
}

/** Under the lock of this kind, so that nobody is at work in what was left half-made. */
async function removeOld(root: string, kind: string, keptDays: number): Promise<void> {
  const oldest = Date.now() - keptDays * 86_400_000;
  for (const name of await readdir(root)) {
    const path = join(root, name);
    const isLeft = name.startsWith(`.making-${kind}-`);
    const isOld = name.startsWith(`${kind}-`) && (await stat(path)).mtimeMs < oldest;
    if (isLeft || isOld) await rm(path, { recursive: true, force: true });
  }
}

async function touch(path: string): Promise<void> {
  const now = new Date();
  await utimes(path, now, now);
}

async function isThere(path: string): Promise<boolean> {
  return (await stat(path).catch(ifAbsent)) !== null;
}
