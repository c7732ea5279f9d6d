import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { PassOptions } from '../../agent/run/established.ts';
import { FlushServer } from '../../agent/run/flush-server.ts';
import { createLog } from '../../lib/process/log.ts';
import { hosted } from './command-host.ts';

const RECORD = {
  time: '2026-11-23T13:29:49.527000Z',
  node: 'cp-1',
  event: 'ended',
  reason: 'flush',
  by: 'root',
  verdict: 'Drop',
  policy: 'p',
  apiGroup: 'nodewall.io',
  tier: 'application',
  rule: 'r',
  ruleIndex: 0,
  direction: 'ingress',
  traffic: 'Host',
  src: '10.0.0.7',
  dst: '10.0.0.1',
  protocol: 'tcp',
  srcPort: 40_000,
  dstPort: 22,
} as const;

/** The agent is played here; test/kernel/established.test.ts has the real one. */
describe('nodewall flush', function () {
  this.timeout(60_000);
  let stateDir: string;
  let server: FlushServer;
  let flush: (options: PassOptions) => Promise<{ ended: number; failed: number; error: Error | null }>;

  before(async () => {
    stateDir = mkdtempSync(join(tmpdir(), 'nodewall-flush-'));
    const established = {
      resetEgress: () => assert.fail('not asked'),
      flush: async (options: PassOptions) => ({ examined: 9, ...(await flush(options)) }),
    };
    const log = createLog({ logLevel: 'error' });
    server = new FlushServer({ node: 'cp-1', stateDir, log, established, guard: null });
    await server.listen();
  });
  after(async () => {
    await server.close();
    rmSync(stateDir, { recursive: true });
  });
  const run = (...args: readonly string[]) => hosted('flush', '--state-dir', stateDir, ...args);

  it('prints each connection, then how many there were', async () => {
    flush = async ({ ended, isDryRun }) => {
      await ended?.(RECORD);
      return { ended: 1, failed: 0, error: null, isDryRun };
    };
    const text =
      '2026-11-23T13:29:49.527000Z  Drop            ingress  tcp 10.0.0.7:40000 → 10.0.0.1:22  application p/r  (established, flush by root)\n';
    const { status, stdout } = await run('--dry-run');
    assert.deepEqual([status, stdout], [0, `${text}1 of 9 connections on cp-1 would be ended.\n`]);
    const { stdout: done } = await run();
    assert.equal(done, `${text}1 of 9 connections on cp-1 were ended.\n`);
  });

  it('has those alone ended that the words name', async () => {
    const others = [
      { ...RECORD, dstPort: 23 },
      { ...RECORD, protocol: 'udp' as const },
      { ...RECORD, direction: 'egress' as const },
    ];
    flush = async ({ only, ended }) => {
      const named = [RECORD, ...others].filter((record) => only?.(record) !== false);
      for (const record of named) await ended?.(record);
      return { ended: named.length, failed: 0, error: null };
    };
    const words = ['--ingress', '--from', '::ffff:10.0.0.7', '--to-port', '22'];
    const { stdout } = await run(...words);
    assert.match(stdout, /^\S+ {2}Drop .*\n1 of 9 connections on cp-1 were ended\.\n$/);
    assert.match((await run()).stdout, /^4 of 9 /m);
    const line =
      'tcp 6 431999 ESTABLISHED src=10.0.0.7 dst=10.0.0.1 sport=40000 dport=22 src=10.0.0.1 dst=10.0.0.7 sport=22 dport=40000';
    assert.match((await run('--line', line)).stdout, /^2 of 9 /m);
    const nothing = await run('--line', '{"traffic":"Host"}');
    assert.equal(nothing.status, 2);
    assert.match(nothing.stderr, /--line: .* is not a line of 'nodewall log'/);
  });

  it('prints one JSON document, also of many connections and of none', async () => {
    for (const count of [0, 1, 5_000]) {
      flush = async ({ ended }) => {
        for (let i = 0; i < count; i++) await ended?.(RECORD);
        return { ended: count, failed: 0, error: null };
      };
      const { status, stdout } = await run('--dry-run', '-o', 'json');
      assert.equal(status, 0);
      const { connections, ...rest } = JSON.parse(stdout);
      assert.equal(connections.length, count);
      const summary = { dryRun: true, node: 'cp-1', examined: 9, ended: count, failed: 0, error: null };
      assert.deepEqual(rest, summary);
    }
  });

  it('ends with 3 if the kernel refuses, wholly or in part, or the agent is another Node’s', async () => {
    flush = async () => ({ ended: 0, failed: 2, error: new Error('connection: Operation not permitted') });
    const partly = await run();
    assert.equal(partly.status, 3);
    assert.match(partly.stdout, /0 of 9 connections on cp-1 were ended, 2 could not be ended/);
    assert.match(partly.stderr, /Operation not permitted/);
    flush = async () => {
      throw new Error('netlink dump: Invalid argument');
    };
    const wholly = await run();
    assert.deepEqual([wholly.status, wholly.stdout], [3, '']);
    assert.match(wholly.stderr, /netlink dump: Invalid argument/);
    const other = await run('--node', 'cp-2');
    assert.equal(other.status, 3);
    assert.match(other.stderr, /is that of Node cp-1, not of cp-2/);
  });

  it('ends with 1 without an agent, and with 2 for an unknown option', async () => {
    const alone = await hosted('flush', '--state-dir', join(stateDir, 'none'));
    assert.equal(alone.status, 1);
    assert.match(alone.stderr, /no agent runs here .*start the agent/);
    const away = await hosted('flush', '--node', 'n7', '--state-dir', join(stateDir, 'none'));
    assert.equal(away.status, 1);
    assert.match(away.stderr, /on n7 itself.*: kubectl .*spec\.nodeName=n7 .* -- nodewall flush$/m);
    assert.equal((await run('--all')).status, 2);
  });
});
