import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { examples, printed, RUN_EXAMPLE, WORKSPACE } from './readme.ts';

describe('README.md', () => {
  it('has an example of the fake that runs', () => {
    const code = examples().at(-1) ?? '';
    const [file, ...args] = RUN_EXAMPLE;
    const { status, stdout, stderr } = spawnSync(file, args, {
      input: code,
      cwd: WORKSPACE,
      encoding: 'utf8',
    });
    assert.equal(status, 0, stderr);
    assert.deepEqual(stdout.trim().split('\n'), printed(code));
  });
});
