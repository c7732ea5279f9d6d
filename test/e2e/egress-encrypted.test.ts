/**
 * egress.encryption: WireGuard in a cluster: agents learn each other's keys by the controller, and
 * keep them; where the kernel has no WireGuard, as where it has, nothing is sent in clear.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { WireGuardSocket } from 'nftables-napi';
import { createLogger } from 'winston';
import { publicKeyText, savedKeys } from '../../agent/egress/wireguard-keys.ts';
import { egressPolicy } from '../kernel/egress-agents.ts';
import type { LabFlow } from '../kernel/egress-lab.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { until } from '../kernel/until.ts';
import { conditions, type EgressBed, gateway, startEgressBed } from './egress-bed.ts';

const NODES = ['plain', 'gw-1'] as const;
const FLOWS: readonly LabFlow[] = ([4, 6] as const).flatMap((family) =>
  (['tcp', 'udp'] as const).map((protocol) => ({ family, protocol })),
);
/** Before every rule, and after all. */
const WIRE = `table inet wire {
  chain in { type filter hook prerouting priority -450; iifname eth0 udp dport 7790 counter; }
  chain out { type filter hook postrouting priority 900; oifname eth0 udp dport 7790 counter; }
}
`;

kernelSuite('an encrypted tunnel of egress gateways in a cluster', function () {
  this.timeout(180_000);
  let bed: EgressBed;
  let hasWireGuard: boolean;
  const keys = new Map<string, string>();

  before(async function () {
    this.timeout(1_800_000);
    const socket = new WireGuardSocket();
    hasWireGuard = await socket.isSupported();
    await socket.close();
    bed = await startEgressBed(NODES, { egress: { encryption: 'WireGuard' } });
    await bed.setGates('NodeNetworkPolicy: true, EgressGateway: true');
    await bed.startController();
    for (const node of NODES) {
      const { namespace } = bed.lab.node(node);
      await namespace.run(['nft', '-f', '-'], { stdin: WIRE });
      // As the agent finds them.
      keys.set(node, publicKeyText(await savedKeys(bed.stateDir(node), createLogger({ silent: true }))));
      bed.startAgent(node);
    }
    await bed.apply(gateway('one', ['gw-1']), egressPolicy('web', ['plain-0'], { gateway: 'one' }));
  });
  after(() => bed?.close());

  const saved = (node: string, file: string): Promise<string> =>
    readFile(join(bed.stateDir(node), file), 'utf8').catch(() => '');

  it('each node learns the keys of those that it exchanges packets with', async () => {
    for (const [node, other] of [
      ['plain', 'gw-1'],
      ['gw-1', 'plain'],
    ] as const)
      await until(
        `${node} knows the key of ${other}`,
        async () => (await saved(node, 'node-state.jsonl')).includes(`"key":"${keys.get(other)}"`),
        { detail: bed.logs },
      );
  });

  it('carries the packets of pods, or says in the status why it does not', async () => {
    if (hasWireGuard) await bed.untilLeavesBy('plain-0', 'gw-1', FLOWS);
    else {
      let last = '';
      await until(
        'the status says it',
        async () => {
          last = conditions((await bed.policyStatus('web'))?.conditions);
          return /NetworkIncomplete: ip link add nodewall-wg .*no wireguard devices/.test(last);
        },
        { detail: () => `${last}\n${bed.logs()}` },
      );
      assert.match(bed.agent('plain').log(), /This kernel has no wireguard devices: load its module/);
      assert.deepEqual(
        await bed.sourcesOf('plain-0', FLOWS),
        FLOWS.map(() => 'nothing'),
      );
    }
    await nothingInClear();
    await bed.untilLeavesBy('plain-1', 'plain', FLOWS);
  });

  it('a node keeps the keys that a new controller has not heard', async () => {
    await bed.agent('gw-1').end('SIGTERM');
    await bed.startController();
    await until(
      'the new view lacks the key',
      async () => (await saved('plain', 'node-state.jsonl')).includes('"key":""'),
      { detail: bed.logs },
    );
    await until(
      'the node knows it',
      async () => (await saved('plain', 'egress.json')).includes(`"key":"${keys.get('gw-1')}"`),
      { detail: bed.logs },
    );
    await bed.restartAgent('plain', { signal: 'SIGKILL' });
    bed.startAgent('gw-1');
    await until(
      'the controller says it again',
      async () => (await saved('plain', 'node-state.jsonl')).includes(`"key":"${keys.get('gw-1')}"`),
      { detail: bed.logs },
    );
    if (hasWireGuard) await bed.untilLeavesBy('plain-0', 'gw-1', FLOWS);
    await nothingInClear();
  });

  it('no log and no report has a private key', async () => {
    for (const node of NODES) {
      const secret = (await saved(node, 'wireguard-key')).split('\n').at(-1) ?? '';
      assert.ok(secret.length > 40);
      for (const text of [
        bed.logs(),
        await saved(node, 'node-state.jsonl'),
        await saved(node, 'egress.json'),
      ])
        assert.ok(!text.includes(secret));
    }
  });

  async function nothingInClear(): Promise<void> {
    for (const node of NODES) {
      const { stdout } = await bed.lab.node(node).namespace.run(['nft', 'list', 'table', 'inet', 'wire']);
      const packets = [...stdout.matchAll(/packets (\d+)/g)].map(([, count]) => Number(count));
      assert.deepEqual(packets, [0, 0], node);
    }
  }
});
