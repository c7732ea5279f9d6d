import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { inNamespace } from './netns.ts';

inNamespace(import.meta.filename, () => {
  describe('memory', () => {
    it('has no leaks and no invalid accesses in the core, by valgrind', () => {
      const script = path.join(import.meta.dirname, '../leak-check.ts');
      // A leak or an invalid access shows in any round; a race in more of them (npm run test:long).
      const rounds = process.env.NODEWALL_RUNS === undefined ? ['4'] : [];
      const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...rounds], {
        encoding: 'utf8',
      });
      assert.equal(status, 0, `${stdout}\n${stderr}`);
    }).timeout(120_000);
  });
});
