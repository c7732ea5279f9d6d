import assert from 'node:assert/strict';
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { until } from '../kernel/until.ts';
import { WarmNodewall } from '../kernel/warm.ts';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { NODEWALL } from '../program.ts';
import { ROOT } from '../structure/source-file.ts';
import { run } from './command.ts';
import { closing, createFolder, type Folder, INVALID, NODE } from './folder.ts';

/** The machine's own file of group names is left alone. */
const AGENT_CONFIG = join(import.meta.dirname, '../netns/agent.yaml');

kernelSuite('nodewall agent', function () {
  this.timeout(60_000);
  let namespace: Namespace;
  let warm: WarmNodewall;
  let folder: Folder;
  before(async () => {
    namespace = await createNamespace('cli');
    warm = new WarmNodewall(namespace);
  });
  beforeEach(async () => {
    folder = await createFolder();
    await folder.write('node.json', [NODE]);
  });
  afterEach(async () => {
    await namespace.run(['nft', 'flush', 'ruleset']);
    await folder.close();
  });
  after(async () => {
    await warm?.close();
    await namespace?.close();
  });

  const common = (node = 'cp-1') => [
    '--node',
    node,
    '--state-dir',
    folder.stateDir,
    '--config',
    AGENT_CONFIG,
  ];
  const manifests = () => ['--manifests', folder.manifests];
  /** In one process for all calls that are not about the process. */
  const nodewall = (...args: readonly string[]) => warm.end(...args);
  /** The program itself. */
  const program = (...args: readonly string[]) => namespace.run([NODEWALL, ...args], { anyStatus: true });
  const agentOnce = (...args: readonly string[]) =>
    nodewall('agent', '--once', ...common(), ...manifests(), ...args);

  /** Ports that the table drops; null where there is no table. */
  async function closed(): Promise<number[] | null> {
    const listed = await namespace.run(['nft', '-s', 'list', 'table', 'inet', 'nodewall'], {
      anyStatus: true,
    });
    if (listed.status !== 0) return null;
    return [...listed.stdout.matchAll(/tcp dport (\d+) counter drop/g)]
      .map(([, port]) => Number(port))
      .sort((a, b) => a - b);
  }

  interface Agent {
    readonly child: ChildProcessWithoutNullStreams;
    log(): string;
    untilClosed(...ports: readonly number[]): Promise<void>;
    end(signal: NodeJS.Signals): Promise<number | null>;
  }

  function start(...args: readonly string[]): Agent {
    const child = namespace.spawn([NODEWALL, 'agent', ...common(), ...args]);
    let text = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (part) => {
        text += part;
      });
    const log = () => text;
    return {
      child,
      log,
      untilClosed: async (...ports) =>
        void (await until(
          `closed: ${ports}`,
          async () => JSON.stringify(await closed()) === JSON.stringify(ports),
          { detail: log },
        )),
      async end(signal) {
        const ended = child.exitCode === null ? once(child, 'exit') : null;
        child.kill(signal);
        await ended;
        return child.exitCode;
      },
    };
  }

  it('--once applies, logs the policies that it enforces and leaves out, and exits with 0', async () => {
    await folder.write('a.json', [closing('good', 80), INVALID]);
    const args = ['agent', '--once', ...common(), ...manifests()];
    const { status, stdout, stderr } = await program(...args);
    assert.deepEqual([status, stdout], [0, '']);
    assert.deepEqual(await closed(), [80]);
    const lines = stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.ok(
      lines.some(({ message, policy }) => message === 'policy enforced' && policy === 'nodewall.io/good'),
      stderr,
    );
    assert.ok(
      lines.some(
        ({ level, policy, inForce }) => level === 'error' && policy === 'broken' && inForce === 'nothing',
      ),
      stderr,
    );
    for (const line of lines) {
      const keys = line.stage === 'apply' ? ['node', 'revision'] : [];
      const missing = ['level', 'message', 'timestamp', ...keys].filter((key) => !(key in line));
      assert.deepEqual(missing, [], JSON.stringify(line));
    }
  });

  it('--once --strict exits with 1 for an invalid policy, and enforces the rest', async () => {
    await folder.write('a.json', [closing('good', 80), INVALID]);
    assert.equal((await agentOnce('--strict')).status, 1);
    assert.deepEqual(await closed(), [80]);
  });

  it('--once with only a Node adds a table without policy rules', async () => {
    assert.equal((await agentOnce()).status, 0);
    assert.deepEqual(await closed(), []);
  });

  it('--once for an undeclared node exits with 1 and changes nothing', async () => {
    const { status, stderr } = await nodewall('agent', '--once', ...common('cp-9'), ...manifests());
    assert.equal(status, 1);
    assert.match(stderr, /no manifest declares Node cp-9/);
    assert.equal(await closed(), null);
  });

  it('--once without its directory exits with 1, with the saved state in force', async () => {
    await folder.write('a.json', [closing('a', 80)]);
    await agentOnce();
    await namespace.run(['nft', 'delete', 'table', 'inet', 'nodewall']);
    await rm(folder.manifests, { recursive: true });
    const { status, stderr } = await agentOnce();
    assert.equal(status, 1, stderr);
    assert.deepEqual(await closed(), [80]);
  });

  it('waits for a missing directory, and enforces it once it exists', async () => {
    const away = join(folder.path, 'away');
    await folder.write('a.json', [closing('a', 80)]);
    await rename(folder.manifests, away);
    const agent = start(...manifests());
    await until('it waits', async () => agent.log().includes('cannot read the manifests'), {
      detail: agent.log,
    });
    assert.equal(await closed(), null);
    await rename(away, folder.manifests);
    await agent.untilClosed(80);
    assert.equal(await agent.end('SIGTERM'), 0);
  });

  it('keeps its rules on SIGTERM and SIGINT, exits with 0, and continues from them after a start', async () => {
    await folder.write('a.json', [closing('a', 80)]);
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      const agent = start(...manifests());
      await agent.untilClosed(80);
      await until(
        'it is ready',
        async () =>
          agent.log().includes('"enforced"') ||
          agent.log().includes('nothing to change') ||
          agent.log().includes('policy enforced'),
        { detail: agent.log },
      );
      assert.equal(await agent.end(signal), 0, agent.log());
      assert.deepEqual(await closed(), [80]);
    }
  });

  it('logs an invalid policy, and keeps its last valid version in force', async () => {
    await folder.write('a.json', [closing('a', 80)]);
    const agent = start(...manifests());
    await agent.untilClosed(80);
    await folder.write('a.json', '{"kind": "List", "items": [');
    await until('it says so', async () => agent.log().includes('a.json'), { detail: agent.log });
    await folder.write('b.json', [closing('b', 81)]);
    await agent.untilClosed(80, 81);
    assert.equal(agent.child.exitCode, null);
    await agent.end('SIGTERM');
  });

  it('keeps the rules in force when its node is no longer declared', async () => {
    await folder.write('a.json', [closing('a', 80)]);
    const agent = start(...manifests());
    await agent.untilClosed(80);
    await folder.write('node.json', [{ ...NODE, metadata: { name: 'cp-2' } }]);
    await until('it says so', async () => agent.log().includes('no manifest declares Node cp-1'), {
      detail: agent.log,
    });
    assert.deepEqual(await closed(), [80]);
    assert.equal(agent.child.exitCode, null);
    await agent.end('SIGTERM');
  });

  it('exits with 1 at start if no file declares its node', async () => {
    const { status, stderr } = await program('agent', ...common('cp-9'), ...manifests());
    assert.equal(status, 1);
    assert.match(stderr, /no manifest declares Node cp-9/);
  });

  it('does not share its state directory with a running agent; a killed one does not count', async () => {
    await folder.write('a.json', [closing('a', 80)]);
    const agent = start(...manifests());
    await agent.untilClosed(80);
    for (const args of [
      ['agent', '--once', ...common(), ...manifests()],
      ['cleanup', '--state-dir', folder.stateDir, '--config', AGENT_CONFIG],
    ]) {
      const { status, stderr } = await nodewall(...args);
      assert.equal(status, 3, stderr);
      assert.match(stderr, /agent.*process \d+/);
    }
    assert.deepEqual(await closed(), [80]);
    await agent.end('SIGKILL');
    assert.equal((await agentOnce()).status, 0);
  });

  it('with its feature gate off enforces nothing and removes only its own table', async () => {
    await folder.write('a.json', [closing('a', 80)]);
    await namespace.run(['nft', 'add', 'table', 'inet', 'other']);
    await agentOnce();
    const { status, stderr } = await agentOnce('--feature-gates', 'NodeNetworkPolicy=false');
    assert.equal(status, 0, stderr);
    assert.equal((await namespace.run(['nft', 'list', 'tables'])).stdout, 'table inet other\n');
    const config = await folder.writeBeside(
      'config.yaml',
      "featureGates: {NodeNetworkPolicy: false}\ninterfaceGroupFile: ''\n",
    );
    assert.equal((await agentOnce('--config', config)).status, 0);
    assert.equal(await closed(), null);
    // The command line wins.
    await agentOnce('--config', config, '--feature-gates', 'NodeNetworkPolicy=true');
    assert.deepEqual(await closed(), [80]);
    // It stays, as a service manager expects.
    const agent = start(...manifests(), '--feature-gates', 'NodeNetworkPolicy=false');
    await until('it says so', async () => agent.log().includes('"disabled"'), { detail: agent.log });
    assert.equal(await closed(), null);
    assert.equal(await agent.end('SIGTERM'), 0);
  });

  it('enforces although its state cannot be read or written, and logs it', async () => {
    await folder.write('a.json', [closing('a', 80)]);
    await mkdir(folder.stateDir);
    for (const name of ['node-state.jsonl', 'manifests.json'])
      await writeFile(join(folder.stateDir, name), '{"damaged');
    const { status, stderr } = await agentOnce();
    assert.equal(status, 0);
    assert.match(stderr, /damaged or of another version/);
    assert.deepEqual(await closed(), [80]);
    // What it saved is good again, and for nobody else to read.
    assert.match(
      await readFile(join(folder.stateDir, 'node-state.jsonl'), 'utf8'),
      /^\{"format":"nodewall-state\/1"/,
    );
  });

  it('ignores a saved state of another node', async () => {
    await folder.write('node.json', [NODE, { ...NODE, metadata: { name: 'cp-2' } }]);
    await folder.write('a.json', [closing('a', 80)]);
    await agentOnce();
    await namespace.run(['nft', 'delete', 'table', 'inet', 'nodewall']);
    await rm(folder.manifests, { recursive: true });
    const { stderr } = await nodewall(
      'agent',
      '--once',
      '--config',
      AGENT_CONFIG,
      '--node',
      'cp-2',
      '--state-dir',
      folder.stateDir,
      ...manifests(),
    );
    assert.match(stderr, /of another node/);
    assert.equal(await closed(), null);
  });

  it('cleanup removes the table, and reports if there is none', async () => {
    await agentOnce();
    const first = await nodewall('cleanup', '--config', AGENT_CONFIG, '--state-dir', folder.stateDir);
    assert.deepEqual([first.status, first.stdout], [0, 'Removed table inet nodewall.\n']);
    const second = await nodewall(
      'cleanup',
      '--config',
      AGENT_CONFIG,
      '--state-dir',
      folder.stateDir,
      '-o',
      'json',
    );
    assert.deepEqual([second.status, JSON.parse(second.stdout)], [0, { removed: [] }]);
  });

  it('dump transaction prints the changes to this kernel, and makes none', async () => {
    await folder.write('a.json', [closing('a', 80)]);
    const args = ['dump', 'transaction', '--node', 'cp-1', ...manifests()];
    const { stdout } = await nodewall(...args);
    assert.match(stdout, /add table inet nodewall/);
    assert.equal(await closed(), null);
    await nodewall('agent', '--once', ...common(), ...manifests());
    const after = await nodewall(...args, '--state-dir', folder.stateDir);
    assert.match(after.stdout, /@peers-local-pods-v4 accept/);
    assert.doesNotMatch(after.stdout, /^(add|delete) (set|chain|element)/m, 'an agent ran');
  });

  describe('refused by the system', () => {
    const UNPRIVILEGED = ['setpriv', '--bounding-set=-net_admin', '--inh-caps=-net_admin', '--'];
    let confined: WarmNodewall;
    before(() => {
      confined = new WarmNodewall(namespace, UNPRIVILEGED);
    });
    after(() => confined.close());

    it('exits with 3 and names the missing permission, without CAP_NET_ADMIN', async () => {
      await folder.write('a.json', [closing('a', 80)]);
      for (const args of [
        ['agent', '--once', ...common(), ...manifests()],
        ['cleanup', '--state-dir', folder.stateDir, '--config', AGENT_CONFIG],
        ['dump', 'transaction', '--node', 'cp-1', ...manifests()],
      ]) {
        const { status, stdout, stderr } = await confined.end(...args);
        assert.equal(status, 3, `${args[0]}: ${stderr}`);
        assert.match(stderr, /needs root, or CAP_NET_ADMIN/);
        assert.equal(stdout, '');
        assert.doesNotMatch(stderr, /\n +at /);
      }
    });

    it('commands that only read files need no permission', async () => {
      await folder.write('a.json', [closing('a', 80)]);
      for (const args of [
        ['validate', ...manifests()],
        ['compile', '--node', 'cp-1', ...manifests()],
        ['explain', '--node', 'cp-1', ...manifests(), '--flow', '{"direction":"ingress"}'],
        ['dump', 'transaction', '--from-empty', '--node', 'cp-1', ...manifests()],
      ]) {
        const { status, stderr } = await confined.end(...args);
        assert.equal(status, 0, stderr);
      }
    });

    it('exits with 3 if the state directory cannot be created', async () => {
      const file = await folder.writeBeside('file', '');
      const { status, stderr } = await nodewall(
        'agent',
        '--once',
        '--node',
        'cp-1',
        '--state-dir',
        join(file, 'x'),
        ...manifests(),
      );
      assert.equal(status, 3);
      assert.match(stderr, /--state-dir: /);
    });
  });
});

describe('nodewall that is not set up', function () {
  this.timeout(60_000);
  it('exits with 3 and names the set-up command', async () => {
    const folder = await createFolder();
    const program = await folder.writeBeside(
      'bin/nodewall',
      await readFile(join(ROOT, 'bin/nodewall'), 'utf8'),
    );
    await chmod(program, 0o755);
    const { status, stderr } = await run([program, 'validate']);
    assert.equal(status, 3);
    assert.match(stderr, /not set up yet: run 'npm run setup'/);
    await folder.close();
  });
});
