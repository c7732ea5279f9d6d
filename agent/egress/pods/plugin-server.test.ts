import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Log } from '../../../lib/process/log.ts';
import type { PodAttachment } from './attachment.ts';
import { releasePlugin, requiredFile } from './plugin.ts';
import { PluginServer } from './plugin-server.ts';

const PLUGIN = join(import.meta.dirname, '../../nftables-napi/build/Release/nodewall-egress');
const RESULT = { cniVersion: '1.0.0', ips: [{ address: '10.0.0.1/24' }], dns: { domain: 'a "}" b\\' } };

describe('the CNI plugin nodewall-egress', () => {
  let stateDir: string;
  let server: PluginServer;
  let now = 0;
  let isKnown = true;
  let isReady = true;
  const calls: [string, PodAttachment][] = [];
  beforeEach(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'nodewall-plugin-'));
    calls.length = 0;
    [isKnown, isReady] = [true, true];
    server = new PluginServer({
      stateDir,
      log: { warn() {}, error() {} } as unknown as Log,
      clock: { now: () => now },
      pods: {
        async add(attachment) {
          calls.push(['add', attachment]);
        },
        remove: (attachment) => void calls.push(['remove', attachment]),
        isKnown: () => isKnown,
        isReady: () => isReady,
      },
    });
  });
  afterEach(async () => {
    await server.close();
    await rm(stateDir, { recursive: true });
  });

  async function plugin(command: string, config: object = { prevResult: RESULT }): Promise<[number, string]> {
    const child = spawn(PLUGIN, {
      env: {
        CNI_COMMAND: command,
        CNI_CONTAINERID: 'c1',
        CNI_IFNAME: 'eth0',
        CNI_ARGS: 'IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=p;K8S_POD_UID=u',
      },
    });
    const socket = join(stateDir, 'cni/agent.sock');
    child.stdin.end(JSON.stringify({ cniVersion: '1.0.0', name: 'net', socket, ...config }));
    const [output, [status]] = await Promise.all([text(child.stdout), once(child, 'close')]);
    return [status, output];
  }

  it('prints the result before, once the agent has the pod', async () => {
    await server.listen();
    const [status, output] = await plugin('ADD');
    assert.equal(status, 0);
    assert.deepEqual(JSON.parse(output), RESULT);
    const pod = {
      pod: 'ns/p/u',
      network: 'net',
      container: 'c1',
      interface: 'eth0',
      addresses: ['10.0.0.1'],
    };
    assert.deepEqual(calls, [['add', pod]]);
    assert.deepEqual(await plugin('CHECK'), [0, '']);
    assert.deepEqual(await plugin('DEL', {}), [0, '']);
    assert.deepEqual(calls[1], ['remove', { ...pod, addresses: [] }]);
  });

  it('fails while the controller has not named the pod; starts it while a gateway does not answer', async () => {
    await server.listen();
    isReady = false;
    assert.equal((await plugin('ADD'))[0], 0);
    isKnown = false;
    const [status, output] = await plugin('ADD');
    assert.deepEqual([status, JSON.parse(output).code], [1, 11]);
    assert.match(JSON.parse(output).msg, /has not named pod ns\/p\/u/);
    assert.equal(JSON.parse((await plugin('CHECK'))[1]).code, 11);
    now += 20_000;
    assert.equal((await plugin('ADD'))[0], 0, 'its pod may be the controller');
  });

  it('needs no agent from the moment the gate is off', async () => {
    await server.listen();
    server.setRequired(false);
    await server.close();
    assert.deepEqual(JSON.parse((await plugin('ADD'))[1]), RESULT);
    server.setRequired(true);
    await server.close();
    assert.ok((await stat(requiredFile(stateDir))).isFile());
  });

  it('waits for an agent that starts, and needs none where nodewall is removed', async () => {
    assert.deepEqual(JSON.parse((await plugin('ADD'))[1]), RESULT, 'never was there');
    await server.listen();
    await server.close();
    assert.equal(JSON.parse((await plugin('STATUS'))[1]).code, 50);
    assert.deepEqual(await plugin('DEL'), [0, '']);
    const waiting = plugin('ADD');
    server = new PluginServer({
      stateDir,
      log: {} as Log,
      clock: { now: () => now },
      pods: { add: async () => {}, remove() {}, isKnown: () => true, isReady: () => true },
    });
    await server.listen();
    assert.equal((await waiting)[0], 0);
    await server.close();
    await releasePlugin(stateDir);
    assert.deepEqual(JSON.parse((await plugin('ADD'))[1]), RESULT);
  });

  it('does not wait for ever for an agent that is stopped', async () => {
    const socket = join(stateDir, 'agent.sock');
    const script = `
      const server = require('node:net').createServer();
      server.listen({ path: process.argv[1], backlog: 1 }, () => {
        require('node:fs').writeSync(1, 'listens');
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
      });`;
    const agent = spawn(process.execPath, ['-e', script, socket]);
    await once(agent.stdout, 'data');
    const queued = [1, 2].map(() => connect(socket));
    await Promise.all(queued.map((one) => once(one, 'connect')));
    try {
      assert.deepEqual(await plugin('DEL', { socket }), [0, '']);
    } finally {
      agent.kill('SIGKILL');
      for (const one of queued) one.destroy();
    }
  });

  it('reports what is wrong with a call', async () => {
    await server.listen();
    for (const [command, config, code] of [
      ['ADD', {}, 7],
      ['ADD', { prevResult: { ips: [{ address: 'x' }] } }, 7],
      ['ADD', { prevResult: RESULT, name: '' }, 7],
      ['SUB', { prevResult: RESULT }, 4],
      ['ADD', { prevResult: RESULT, socket: 'x'.repeat(200) }, 7],
    ] as const) {
      const [status, output] = await plugin(command, config);
      assert.deepEqual([status, JSON.parse(output).code], [1, code], output);
    }
    const versions = JSON.parse((await plugin('VERSION'))[1]);
    assert.ok(versions.supportedVersions.includes('1.0.0'));
  });

  it('asks by a socket of the user, in a directory of the user', async () => {
    await server.listen();
    assert.equal((await stat(join(stateDir, 'cni'))).mode & 0o777, 0o700);
    assert.equal((await stat(join(stateDir, 'cni/agent.sock'))).mode & 0o777, 0o600);
    assert.ok((await stat(requiredFile(stateDir))).isFile());
    for (const request of [
      'GET / HTTP/1.1\r\n\r\n',
      'x'.repeat(200),
      'nodewall-egress/1 ADD 1 1 1 2\nabc[]',
    ]) {
      const socket = connect(join(stateDir, 'cni/agent.sock'));
      socket.write(request);
      assert.match(await text(socket), /^error 7 /, request);
    }
  });
});
