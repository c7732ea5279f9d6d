/** Two agents in one network namespace, as a package and a DaemonSet, or a pod deleted by force. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { join } from 'node:path';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { until } from '../kernel/until.ts';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { NODEWALL } from '../program.ts';
import { closing, createFolder, type Folder, NODE } from './folder.ts';

const CONFIG = join(import.meta.dirname, '../netns/agent.yaml');
const SQUAT = `require('net').createServer().listen('\\0nodewall-agent', () => console.log('up'))`;

kernelSuite('two agents in one network namespace', function () {
  this.timeout(60_000);
  let namespace: Namespace;
  let first: Folder;
  let second: Folder;
  const started: { end(signal: NodeJS.Signals): Promise<unknown> }[] = [];
  before(async () => {
    namespace = await createNamespace('two');
  });
  beforeEach(async () => {
    first = await createFolder();
    await first.write('a.json', [NODE, closing('a', 80)]);
    second = await createFolder();
    await second.write('b.json', [NODE, closing('b', 81)]);
  });
  afterEach(async () => {
    await Promise.all(started.splice(0).map((one) => one.end('SIGKILL')));
    await namespace.run(['nft', 'flush', 'ruleset']);
    await Promise.all([first.close(), second.close()]);
  });
  after(() => namespace?.close());

  const options = ({ stateDir }: Folder) => ['--state-dir', stateDir, '--config', CONFIG];
  const agent = (folder: Folder) => [
    ...[NODEWALL, 'agent', '--node', 'cp-1', '--manifests', folder.manifests],
    ...options(folder),
  ];

  function start(argv: readonly string[]) {
    const child = namespace.spawn(argv);
    let text = '';
    child.stderr.on('data', (part) => {
      text += part;
    });
    const agent = {
      log: () => text,
      says: (what: RegExp) => until(`${what}`, async () => what.test(text), { detail: () => text }),
      async end(signal: NodeJS.Signals): Promise<number | null> {
        const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : null;
        child.kill(signal);
        await ended;
        return child.exitCode;
      },
    };
    started.push(agent);
    return agent;
  }

  const table = async () =>
    (await namespace.run(['nft', '-s', 'list', 'table', 'inet', 'nodewall'], { anyStatus: true })).stdout;
  const untilClosed = (port: number) =>
    until(`port ${port} is closed`, async () => (await table()).includes(`tcp dport ${port} `));

  it('the second says who has it, changes nothing, and takes over when that one was killed', async () => {
    const one = start(agent(first));
    await untilClosed(80);
    const other = start(agent(second));
    await other.says(/another agent enforces rules/);
    assert.match(
      other.log(),
      /process \d+, host .*, since \\"20\d\d-.*, started as \\"nodewall agent --node cp-1 .*waits/,
    );
    assert.doesNotMatch(other.log(), /"starting"/);
    assert.match(await table(), /tcp dport 80 /);
    await one.end('SIGKILL');
    await untilClosed(81);
    assert.match(other.log(), /taking over/);
    assert.doesNotMatch(one.log(), /third party/);
    assert.equal(await other.end('SIGTERM'), 0);
  });

  it('a signal ends one that waits', async () => {
    const one = start(agent(first));
    await untilClosed(80);
    const other = start(agent(second));
    await other.says(/waits/);
    assert.equal(await other.end('SIGTERM'), 0);
    assert.equal(await one.end('SIGTERM'), 0);
    assert.match(await table(), /tcp dport 80 /);
  });

  it('--once and cleanup refuse, with any state directory, also from another container', async () => {
    const container = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc', '--mount'];
    const one = start([...container, ...agent(first)]);
    await untilClosed(80);
    for (const argv of [
      [...agent(second), '--once'],
      [NODEWALL, 'cleanup', ...options(second)],
    ]) {
      const { status, stderr } = await namespace.run(argv, { anyStatus: true });
      assert.equal(status, 3, stderr);
      assert.match(stderr, /process 1 of another container or of the host.*stop it first/);
    }
    const check = await namespace.run([NODEWALL, 'check', '--machine', ...options(second)], {
      anyStatus: true,
    });
    assert.match(check.stdout, /ok +agent +runs as process 1 of another container/);
    assert.match(await table(), /tcp dport 80 /);
    await one.end('SIGKILL');
  });

  it('whoever merely has the name of the socket keeps no agent from enforcing', async () => {
    const stranger = namespace.spawn([process.execPath, '-e', SQUAT]);
    await once(stranger.stdout, 'data');
    const one = start(agent(first));
    await untilClosed(80);
    const { status, stderr } = await namespace.run([...agent(second), '--once'], { anyStatus: true });
    assert.equal(status, 3, stderr);
    assert.match(stderr, /a process that does not say which/);
    assert.equal(await one.end('SIGTERM'), 0);
    stranger.kill();
  });
});
