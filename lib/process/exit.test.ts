import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { untilStopped } from './exit.ts';

/** A process that stays for ten seconds, unless a signal ends it. */
async function endOf(program: string): Promise<readonly [code: number | null, signal: string | null]> {
  const text = `
    import { untilStopped } from ${JSON.stringify(`${import.meta.dirname}/exit.ts`)};
    setTimeout(() => process.exit(9), 10_000);
    const over = new AbortController();
    const kill = () => process.kill(process.pid, 'SIGTERM');
    ${program}
  `;
  const child = spawn(process.execPath, ['--input-type=module-typescript', '-e', text], { stdio: 'inherit' });
  const [code, signal] = await once(child, 'exit');
  return [code, signal];
}

describe('waiting for a signal', function () {
  this.timeout(20_000);

  it('ends with the signal, or with null where the wait is over', async () => {
    const over = new AbortController();
    const [first, second] = [untilStopped(over.signal), untilStopped()];
    over.abort();
    assert.equal(await first, null);
    process.emit('SIGTERM', 'SIGTERM');
    assert.equal(await second, 'SIGTERM');
  });

  it('loses no signal that arrives just as the wait ends', async () => {
    const lost = 'const waiting = untilStopped(over.signal); kill(); over.abort(); await waiting;';
    assert.deepEqual(await endOf(`${lost} await new Promise(() => {});`), [null, 'SIGTERM']);
    const next = 'process.exit((await untilStopped()) === "SIGTERM" ? 3 : 4);';
    assert.deepEqual(await endOf(`${lost} ${next}`), [3, null]);
  });

  it('loses no signal that arrives in any turn of the event loop after it', async () => {
    // The callback of `stat` runs after its turn has asked for signals, and before listeners go.
    const program = (turns: number) => `
      import { stat } from 'node:fs';
      import { setImmediate as turn } from 'node:timers/promises';
      const waiting = untilStopped(over.signal);
      over.abort();
      await waiting;
      for (let count = 0; count < ${turns}; count++) await turn();
      stat('/', kill);
      for (const start = performance.now(); performance.now() - start < 20; );
      await new Promise(() => {});
    `;
    const ends = await Promise.all([0, 1, 2, 3].map((turns) => endOf(program(turns))));
    assert.deepEqual(ends, Array(4).fill([null, 'SIGTERM']));
  });
});
