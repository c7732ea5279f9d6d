/**
 * Enforcement goes on while flow log records cannot be written, or their packets not be received.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { NODEWALL } from '../program.ts';
import { forEachDataplane, NFTABLES } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { passedDuring } from './flood-tool.ts';
import { policy, tcp, udp } from './manifests.ts';
import { pause, until } from './until.ts';
import { observe } from './verdicts.ts';

const LOGGED = { action: 'Drop', enableLogging: true } as const;

// The same in every dataplane: all write records alike.
forEachDataplane(
  'a record that is hindered',
  (dataplane) => {
    let node: EnforcedNode;
    let agent: RunningAgent | undefined;
    beforeEach(async () => {
      node = await createEnforcedNode(undefined, dataplane);
    });
    afterEach(() => node?.close());
    const recordFile = () => join(node.stateDir, 'records.jsonl');

    it('writes to standard output if configured, and no reader blocks it', async () => {
      const config = await node.configure({ log: { file: 'stdout', rate: 0, burst: 1 } });
      // Nobody reads: the pipe holds 64 KiB.
      const argv = [
        NODEWALL,
        'agent',
        '--manifests',
        node.manifests,
        '--node',
        'node-0',
        '--state-dir',
        node.stateDir,
        ...config,
      ];
      const pipe = join(node.stateDir, '..', 'pipe');
      await node.topology.node.run(['mkfifo', pipe]);
      node.topology.node.spawn(['sh', '-c', 'exec sleep 300 <"$0"', pipe]);
      const script = 'exec "$@" >"$0"';
      const deaf = node.topology.node.spawn(['sh', '-c', script, pipe, ...argv]);
      let said = '';
      deaf.stderr.on('data', (part) => {
        said += part;
      });
      const rest = { name: 'close', ...LOGGED, ports: [udp(9)] } as const;
      await node.write('policy.json', [policy('recorded', { ingress: [rest] })]);
      await until('it enforces', async () => said.includes('"message":"enforced"'), { detail: () => said });
      await passedDuring(node.topology, [{ protocol: 'udp', port: 9, family: 4, rate: 40_000 }], () =>
        pause(2000),
      );
      await until(
        'it says so',
        async () => said.includes('cannot write flow log records; enforcement continues'),
        {
          detail: () => said,
        },
      );
      await node.write('policy.json', [policy('recorded', { ingress: [{ ...rest, ports: [udp(20_009)] }] })]);
      await node.untilEnforced('20009');
      deaf.kill('SIGTERM');
      await until('it ends all the same', async () => deaf.exitCode !== null);
      agent = node.start(...config);
      await until('it has started', async () => agent?.log().includes('"enforced"') ?? false);
      await passedDuring(node.topology, [{ protocol: 'udp', port: 20_009, family: 4, rate: 100 }], () =>
        pause(200),
      );
      await until('a record', async () =>
        /^\{"time":.*"rule":"close".*"dstPort":20009/m.test(agent?.log() ?? ''),
      );
      assert(!existsSync(recordFile()));
    });

    it('keeps enforcing while another program has the NFLOG group', async () => {
      const code =
        "const { Nflog } = await import('nftables-napi'); new Nflog({ group: 7411 }, () => {}); console.log('ready');";
      const other = node.topology.node.spawn([process.execPath, '--input-type=module', '-e', code], {
        cwd: join(import.meta.dirname, '../..'),
      });
      let ready = '';
      other.stdout.on('data', (part) => {
        ready += part;
      });
      await until('the other listens', async () => ready !== '');
      await node.write('policy.json', [
        policy('recorded', { ingress: [{ name: 'close', ...LOGGED, ports: [tcp(5000)] }] }),
      ]);
      agent = node.start();
      await node.untilEnforced('5000', agent);
      assert.match(
        agent?.log() ?? '',
        /nothing is recorded, enforcement continues\. Another program listens to NFLOG group 7411/,
      );
      other.kill();
      await until('it is recorded', async () =>
        /receiving packets for the flow log again/.test(agent?.log() ?? ''),
      );
      await observe(node.topology, [
        {
          direction: 'ingress',
          src: node.topology.plan.clientAddresses[0]?.v4 ?? '',
          dst: node.topology.plan.nodeAddresses[0]?.v4 ?? '',
          protocol: 'tcp',
          srcPort: 42_000,
          dstPort: 5000,
        },
      ]);
      await until(
        'a record',
        async () => existsSync(recordFile()) && readFileSync(recordFile(), 'utf8').includes('"dstPort":5000'),
      );
    });
  },
  [NFTABLES],
);
