import assert from 'node:assert/strict';
import { MACHINE_QUESTIONS } from '../../cli/console.ts';
import { NODEWALL } from '../program.ts';
import { run } from './command.ts';
import { hosted } from './command-host.ts';

describe('nodewall console without a cluster', function () {
  this.timeout(60_000);

  it('names the commands that answer on a machine, and ends', async () => {
    const { status, stdout, stderr } = await run([NODEWALL, 'console', '--open'], {
      env: { HOME: '/nonexistent', KUBECONFIG: '' },
    });
    assert.deepEqual([status, stdout], [2, '']);
    assert.match(
      stderr,
      /^nodewall: there is no kubeconfig, .*: give --kubeconfig FILE, or set KUBECONFIG\.$/m,
    );
    for (const [command, question] of MACHINE_QUESTIONS) {
      const line = stderr.split('\n').find((one) => one.startsWith(`  nodewall ${command} `));
      assert.ok(line?.endsWith(question), stderr);
    }
  });

  it('names only commands that need no cluster', async () => {
    for (const [command] of MACHINE_QUESTIONS) {
      const { status, stdout } = await hosted(command, '--help');
      assert.equal(status, 0);
      assert.match(stdout, new RegExp(`^Usage: nodewall ${command} `));
      assert.match(stdout, /this machine|--state-dir/, command);
    }
  });
});
