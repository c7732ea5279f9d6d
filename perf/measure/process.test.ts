import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { TRIALS, trialCommand } from './process.ts';

describe('trials', () => {
  it('are programs that are there', () => {
    const programs = TRIALS.flatMap((name) => trialCommand(name, {}).filter((word) => word.endsWith('.ts')));
    assert.equal(programs.length, TRIALS.length);
    assert.deepEqual(
      programs.filter((path) => !existsSync(path)),
      [],
    );
  });
});
