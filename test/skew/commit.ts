/** Trees of earlier commits. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { output, run } from '../../build/programs/command.ts';
import { ROOT } from '../structure/source-file.ts';

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
