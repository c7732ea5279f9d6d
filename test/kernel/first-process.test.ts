/** Signals to the first process of a container, as agents and controllers in pods are. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { kernelSuite } from './kernel-suite.ts';

const STOPPED = new URL('../../lib/process/exit.ts', import.meta.url).href;

/** The exit status of a program that is the first process of its namespace. */
async function statusOf(program: string): Promise<number | null> {
  const text = `
    import { listenAsFirstProcess, untilStopped } from '${STOPPED}';
    setTimeout(() => process.exit(9), 3_000);
    const kill = () => process.kill(process.pid, 'SIGTERM');
    ${program}
    await new Promise(() => {});
  `;
  const node = [process.execPath, '--input-type=module-typescript', '-e', text];
  const child = spawn('unshare', ['--pid', '--fork', '--kill-child', ...node], { stdio: 'inherit' });
  const [status] = await once(child, 'exit');
  return status;
}

kernelSuite('the first process of a container', () => {
  const ENDED_BY_SIGTERM = 143;

  it('is ended by a signal before it waits for one', async () => {
    assert.equal(await statusOf('kill();'), 9, 'the kernel drops it by default');
    assert.equal(await statusOf('listenAsFirstProcess(); kill();'), ENDED_BY_SIGTERM);
  });

  it('is ended by a signal that comes between two waits', async () => {
    const program = 'const over = new AbortController(); const waiting = untilStopped(over.signal);';
    assert.equal(await statusOf(`${program} over.abort(); await waiting; kill();`), ENDED_BY_SIGTERM);
  });
});
