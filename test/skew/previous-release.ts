/** The program one version before this one, from git. */
import { hash } from 'node:crypto';
import { readdir, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from '../cluster/cache.ts';
import { output } from '../cluster/command.ts';
import { ROOT } from '../structure/source-file.ts';
import { missingCommit, unpackCommit } from './commit.ts';

/**
 * Nothing has been released yet. This is the last commit before agents refused rules with unknown
 * parts, and before `established`, anti-spoofing, differences by POST and positions in revisions:
 * the worst neighbour that a release can have. Replaced by the tag of each release.
 */
const PREVIOUS = 'acfb29f56d1f3e153e4b16af6b7ea377104652be';

/** Of the tree: what a release runs from. */
const FOLDERS = ['agent', 'apis', 'bin', 'cli', 'controller', 'deploy', 'lib', 'package.json'];
const LOCK = 'package-lock.json';

/** Why there is no previous release here; null: there is one. */
export function missingPreviousRelease(): Promise<string | null> {
  return missingCommit(PREVIOUS);
}

/**
 * Its folder, with the addon built. It is in the cache outside of node_modules, below which Node.js
 * refuses to strip types.
 */
export function previousRelease(): Promise<string> {
  // Links into this checkout are part of it.
  const key = hash('sha256', `${PREVIOUS} ${ROOT}`).slice(0, 16);
  return cached('previousrelease', key, async (folder) => {
    await unpackCommit(PREVIOUS, folder, [...FOLDERS, LOCK]);
    await addPackages(folder);
    await output([process.execPath, 'agent/nftables-napi/build.ts'], { cwd: folder });
  });
}

/** Today's packages where the lock file is the same, else those that its own lock file says. */
async function addPackages(folder: string): Promise<void> {
  const [own, todays] = await Promise.all([folder, ROOT].map((one) => readFile(join(one, LOCK), 'utf8')));
  await output(['mkdir', '-p', join(folder, 'node_modules/.cache')]);
  if (own !== todays) {
    await output(['npm', 'ci', '--no-fund', '--no-audit', '--loglevel=error'], { cwd: folder });
    return;
  }
  const names = (await readdir(join(ROOT, 'node_modules'))).filter((name) => !name.startsWith('.'));
  const workspaces = ['ipset-ts', 'nftables-napi'];
  for (const name of names) {
    const target = workspaces.includes(name) ? join('../agent', name) : join(ROOT, 'node_modules', name);
    await symlink(target, join(folder, 'node_modules', name));
  }
}
