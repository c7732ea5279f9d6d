import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { untilStopped } from './stopped.ts';

/** A process that stays for ten seconds, unless a signal ends it. */
async function endOf(program: string): Promise<readonly [code: number | null, signal: string | null]> {
  const text = `
    import { untilStopped } from ${JSON.stringify(`${import.meta.dirname}/stopped.ts`)};
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
    assert.equal(process.listenerCount('SIGTERM'), 0);
  });

  it('loses no signal that arrives just as the wait ends', async () => {
    const lost = 'const waiting = untilStopped(over.signal); kill(); over.abort(); await waiting;';
    assert.deepEqual(await endOf(`${lost} await new Promise(() => {});`), [null, 'SIGTERM']);
    const next = 'process.exit((await untilStopped()) === "SIGTERM" ? 3 : 4);';
    assert.deepEqual(await endOf(`${lost} ${next}`), [3, null]);
  });
});
