/** Trees of earlier commits, and the program one version before this one, from git. */

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from '../../build/programs/cache.ts';
import { output, run } from '../../build/programs/command.ts';
import { ROOT } from '../structure/source-file.ts';

/**
 * Nothing has been released yet. This is the last commit before agents refused rules with unknown
 * parts, and before `established`, anti-spoofing, differences by POST and positions in revisions:
 * the worst neighbour that a release can have. Replaced by the tag of each release.
 */
const PREVIOUS = 'acfb29f56d1f3e153e4b16af6b7ea377104652be';

/** Of the tree: what a release runs from. */
const PARTS = [
  ...['agent', 'apis', 'bin', 'cli', 'controller', 'deploy', 'lib', 'package.json', 'package-lock.json'],
];

/** Why there is no previous release here; null: there is one. */
export function missingPreviousRelease(): Promise<string | null> {
  return missingCommit(PREVIOUS);
}

/**
 * Its folder, with its own packages, and the addon built. It is in the cache outside of
 * node_modules, below which Node.js refuses to strip types.
 */
export function previousRelease(): Promise<string> {
  return cached('previousrelease', PREVIOUS.slice(0, 16), async (folder) => {
    await unpackCommit(PREVIOUS, folder, PARTS);
    await output(['npm', 'ci', '--no-fund', '--no-audit', '--loglevel=error'], { cwd: folder });
    await output([process.execPath, 'agent/nftables-napi/build.ts'], { cwd: folder });
  });
}

/** Why a commit can't be had; null: it can. */
export async function missingCommit(commit: string): Promise<string | null> {
  const { code } = await run(['git', 'cat-file', '-e', `${commit}^{commit}`], { cwd: ROOT }).catch(() => {
    return { code: null };
  });
  return code === 0 ? null : `commit ${commit} is not here (no git, or a checkout without history)`;
}

/** Writes files of a commit into a folder; no paths: all of them. */
export async function unpackCommit(
  commit: string,
  folder: string,
  paths: readonly string[] = [],
): Promise<void> {
  const archive = join(folder, 'archive.tar');
  await output(['git', 'archive', '--output', archive, commit, ...paths], { cwd: ROOT });
  await output(['tar', '-xf', archive, '-C', folder]);
  await rm(archive);
}
