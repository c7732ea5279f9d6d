/** The program one version before this one, from git. */
import { cached } from '../../build/programs/cache.ts';
import { output } from '../../build/programs/command.ts';
import { missingCommit, unpackCommit } from './commit.ts';

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
