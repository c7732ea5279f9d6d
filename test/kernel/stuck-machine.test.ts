/**
 * What other processes and the machine do to a running agent: it goes on enforcing, and says what
 * is wrong.
 */
import assert from 'node:assert/strict';
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NODEWALL } from '../program.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent, toRunningAgent } from './enforced-node.ts';
import { kernelSuite } from './kernel-suite.ts';
import { NODE_NAME, policy, tcp } from './manifests.ts';
import { pause, until } from './until.ts';

const OCCUPY =
  "require('net').createServer((s) => s.destroy()).listen(9412, '127.0.0.1', () => console.log('there'))";
/**
 * Mounts a disk of its own and runs the agent on it. A line on standard input freezes it: every
 * write then blocks, as on a disk that no longer answers. Thawed by the next line, and after 120 s.
 */
const FROZEN_DISK = `set -e
mkdir "$0/disk"
dd if=/dev/zero of="$0/image" bs=1M count=16 status=none
mkfs.ext4 -q "$0/image"
mount -o loop "$0/image" "$0/disk"
"$@" &
agent=$!
read -r line
(sleep 120; fsfreeze -u "$0/disk" 2>/dev/null || true) &
fsfreeze -f "$0/disk"
echo frozen
read -r line
fsfreeze -u "$0/disk" || true
echo thawed
wait $agent`;

kernelSuite('a machine in trouble', () => {
  let node: EnforcedNode;
  let folder: string;
  beforeEach(async () => {
    node = await createEnforcedNode();
    folder = await mkdtemp(join(tmpdir(), 'nodewall-stuck-'));
  });
  afterEach(async () => {
    await node?.close();
    await rm(folder, { recursive: true, force: true });
  });

  const close = (port: number) =>
    node.write('policy.json', [
      policy('p', {
        ingress: [{ name: 'close', action: 'Drop', ports: [tcp(port)], enableLogging: true }],
        egress: [{ name: 'names', action: 'Allow', to: [{ fqdn: '*.a.test' }], ports: [tcp(port)] }],
      }),
    ]);
  const untilLogged = (agent: RunningAgent, text: string) =>
    until(`the log says ${text}`, async () => agent.log().includes(text), {
      detail: agent.log,
      news: agent.news,
    });

  it('a process that occupies the metrics port: rules are in force, and the port is taken when it is free', async () => {
    const other = node.topology.node.spawn([process.execPath, '-e', OCCUPY]);
    await once(other.stdout, 'data');
    await close(4001);
    const agent = node.start('--metrics-listen', '127.0.0.1:9412');
    await node.untilEnforced('4001', agent);
    await untilLogged(agent, 'cannot serve health and metrics; retrying');
    other.kill();
    await once(other, 'exit');
    await untilLogged(agent, 'serving health and metrics');
  });

  it('a disk that does not answer: changes are enforced meanwhile', async function () {
    const tools = 'command -v mkfs.ext4 fsfreeze && test -c /dev/loop-control';
    if ((await node.topology.node.run(['sh', '-c', tools], { anyStatus: true })).status !== 0) {
      process.stderr.write(
        'skipped: a disk that does not answer: needs mkfs.ext4, fsfreeze and loop devices\n',
      );
      return this.skip();
    }
    await close(4000);
    const stateDir = join(folder, 'disk', 'state');
    const argv = [NODEWALL, 'agent', '--manifests', node.manifests, '--node', NODE_NAME];
    const options = ['--state-dir', stateDir, ...(await node.configure({}))];
    const child: ChildProcessWithoutNullStreams = node.topology.node.spawn([
      'unshare',
      '--mount',
      'sh',
      '-c',
      FROZEN_DISK,
      folder,
      ...argv,
      ...options,
    ]);
    const agent = toRunningAgent(child);
    try {
      await node.untilEnforced('4000', agent);
      child.stdin.write('freeze\n');
      await untilLogged(agent, 'frozen');
      // More changes than threads that wait for the disk.
      for (let port = 4001; port < 4009; port++) {
        await close(port);
        await node.untilEnforced(String(port), agent);
        // Long enough that each change begins to be saved.
        await pause(600);
      }
      await untilLogged(agent, 'the disk does not answer');
      child.stdin.write('thaw\n');
      await untilLogged(agent, 'thawed');
      assert(agent.isRunning());
    } finally {
      child.stdin.write('thaw\n\n');
      await agent.end('SIGKILL');
    }
  });
});
