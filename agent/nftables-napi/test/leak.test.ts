import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { inNamespace } from './netns.ts';

inNamespace(import.meta.filename, () => {
  describe('memory', () => {
    it('has no leaks and no invalid accesses in the core, by valgrind', () => {
      const script = path.join(import.meta.dirname, '../leak-check.ts');
      const { status, stdout, stderr } = spawnSync(process.execPath, [script], { encoding: 'utf8' });
      assert.equal(status, 0, `${stdout}\n${stderr}`);
    }).timeout(120_000);
  });
});
