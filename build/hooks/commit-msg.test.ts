import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Finished, run } from '../programs/command.ts';

describe('the hook for commit messages', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-hook-'));
  });
  after(() => rm(folder, { recursive: true }));

  const judge = async (message: string): Promise<Finished> => {
    const file = join(folder, 'message');
    await writeFile(file, message);
    return run([join(import.meta.dirname, 'commit-msg'), file]);
  };
  const subject = (length: number): string => 'Ü'.padEnd(length, 'x');

  for (const [what, message] of [
    ['the longest subject, and a body', `${subject(72)}\n\nWhy.\n`],
    ['comments of git between them', 'Say so\n# Please enter\n\n# the message\nBecause.\n# On branch main\n'],
    ['a merge', "Merge branch 'other'\n"],
    ['what joins another commit', 'fixup! Say so\n'],
    ['a revert', 'Revert "Say so"\n'],
  ] as const)
    it(`takes ${what}`, async () => {
      assert.deepEqual(await judge(message), { code: 0, stdout: '', stderr: '' });
    });

  for (const [what, message, why] of [
    ['a longer subject', `${subject(73)}\n\nWhy.\n`, /the subject has 73 characters; shorten it to 72/],
    ['no body', 'Say so\n', /say why in a body/],
    ['comments in place of a body', 'Say so\n\n# Please enter\n', /say why in a body/],
    ['no blank line', 'Say so\nBecause.\n\nIndeed.\n', /put a blank line behind the subject/],
    ['nothing', '', /say why in a body/],
  ] as const)
    it(`refuses ${what}`, async () => {
      const { code, stderr } = await judge(message);
      assert.equal(code, 1);
      assert.match(stderr, why);
    });
});
