/**
 * `nodewall advise` on a machine: an agent sees real traffic, a policy is made of it and enforced
 * by the agent, the same traffic passes, and other traffic is denied.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { nodewall } from '../cli/command.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import type { Flow } from './flow.ts';
import { kernelSuite } from './kernel-suite.ts';
import { policy, tcp } from './manifests.ts';
import { until } from './until.ts';
import { observe } from './verdicts.ts';

const MARKER = 21_000;
/** Without a rule that asks for it, nothing is tracked. */
const TRACKED = `table inet tracked {
  chain input { type filter hook input priority 0; ct state established accept; }
}
`;
/** Connections of each usual kind. */
const TIMES = 4;
/** Of client ports; those before are for connections under the advised policies. */
const FIRST_ROUND = 3;

kernelSuite('advised policies', () => {
  let node: EnforcedNode;

  beforeEach(async () => {
    node = await createEnforcedNode();
    await node.nft(TRACKED);
  });
  afterEach(() => node?.close());

  function ends() {
    const { nodeAddresses, clientAddresses } = node.topology.plan;
    const [client, other] = clientAddresses.filter((one) => one.client === 0);
    const pod = clientAddresses.find((one) => one.client === 1);
    const [own] = nodeAddresses;
    assert.ok(own !== undefined && client !== undefined && other !== undefined && pod !== undefined);
    return { own, client, other, pod };
  }

  /** @param round gives other ports of clients, so that connections are new */
  function usual(round: number): Flow[] {
    const { own, client, pod } = ends();
    return Array.from({ length: TIMES }, (_, i) => 40_000 + 100 * round + i).flatMap((srcPort): Flow[] => [
      { direction: 'ingress', src: client.v4, dst: own.v4, protocol: 'tcp', srcPort, dstPort: 22 },
      { direction: 'ingress', src: client.v6, dst: own.v6, protocol: 'tcp', srcPort, dstPort: 22 },
      { direction: 'ingress', src: pod.v4, dst: own.v4, protocol: 'tcp', srcPort, dstPort: 9100 },
      { direction: 'ingress', src: client.v4, dst: own.v4, protocol: 'udp', srcPort, dstPort: 514 },
      { direction: 'egress', src: own.v4, dst: client.v4, protocol: 'tcp', srcPort, dstPort: 5432 },
      { direction: 'egress', src: own.v6, dst: client.v6, protocol: 'udp', srcPort, dstPort: 123 },
    ]);
  }

  /** One peer on many ports, one of them in use. */
  function scan(round: number): Flow[] {
    const { own, other } = ends();
    return [22, ...Array.from({ length: 30 }, (_, i) => 1000 + i)].map((dstPort) => ({
      direction: 'ingress',
      src: other.v4,
      dst: own.v4,
      protocol: 'tcp',
      srcPort: 41_000 + round,
      dstPort,
    }));
  }

  /** What was not there when the policy was made. */
  function foreign(): Flow[] {
    const { own, client, pod } = ends();
    const srcPort = 42_000;
    return [
      { direction: 'ingress', src: client.v4, dst: own.v4, protocol: 'tcp', srcPort, dstPort: 9100 },
      { direction: 'ingress', src: pod.v4, dst: own.v4, protocol: 'tcp', srcPort, dstPort: 22 },
      { direction: 'ingress', src: client.v4, dst: own.v4, protocol: 'tcp', srcPort, dstPort: 8080 },
      { direction: 'egress', src: own.v4, dst: client.v4, protocol: 'tcp', srcPort, dstPort: 443 },
      { direction: 'egress', src: own.v4, dst: pod.v4, protocol: 'tcp', srcPort, dstPort: 5432 },
    ];
  }

  /** What is written before it is in force when its port is. */
  function mark(port: number): Promise<void> {
    const rules = { priority: 1, ingress: [{ action: 'Drop' as const, ports: [tcp(port)] }] };
    return node.write('marker.json', [policy('marker', rules)]);
  }

  /** Whether an agent that runs while there is the usual traffic has saved all of it. */
  async function isSaved(round: number): Promise<boolean> {
    const agent = node.start();
    await node.untilEnforced(String(MARKER), agent);
    await node.topology.node.run(['conntrack', '-F']);
    const all = [...usual(round), ...scan(round)];
    assert.deepEqual(
      await observe(node.topology, all),
      all.map(() => 'Allow'),
    );
    await agent.end('SIGTERM');
    const saved = await readFile(join(node.stateDir, 'flows.jsonl'), 'utf8').catch(() => '');
    const kinds = saved.split('\n').filter((line) => line.includes('"port"'));
    return usual(round).every(({ dstPort }) =>
      kinds.some((line) => JSON.parse(line).port === dstPort && JSON.parse(line).connections >= TIMES),
    );
  }

  it('pass the traffic that they are made of, and nothing else', async () => {
    const { pod, other } = ends();
    await node.write('pod.json', [
      {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: {
          name: 'scraper-0',
          namespace: 'ops',
          labels: { app: 'scraper', 'pod-template-hash': 'x' },
        },
        status: { podIPs: [{ ip: pod.v4 }, { ip: pod.v6 }] },
      },
    ]);
    await mark(MARKER);
    // An agent without processor time may end before the kernel has told it of the last ones.
    let round = FIRST_ROUND;
    await until('an agent has seen and saved them all', () => isSaved(round++));

    const { stdout: text } = await node.ask('advise', '--machine', '--manifests', node.manifests);
    assert.match(text, /podSelector: \{matchLabels: \{app: scraper\}\}/);
    assert.doesNotMatch(text, /pod-template-hash/);
    assert.match(text, /# one peer on many ports: a scanner\?\n# - ingress 10\./);
    assert.ok(!text.split('Review list')[0]?.includes(`${other.v4}/`), text);
    await node.write('advised.yaml', text);
    const { status, stderr } = await nodewall('validate', '--manifests', node.manifests);
    assert.equal(status, 0, stderr);

    // An audit denies nothing.
    const audit = node.start();
    await node.untilEnforced('514', audit);
    await node.topology.node.run(['conntrack', '-F']);
    assert.deepEqual(new Set(await observe(node.topology, [...usual(1), ...foreign()])), new Set(['Allow']));
    await node.write('advised.yaml', text.replaceAll('mode: Audit', 'mode: Enforce'));
    await mark(MARKER + 1);
    await node.untilEnforced(String(MARKER + 1), audit);
    await node.topology.node.run(['conntrack', '-F']);
    const again = [...usual(2), ...scan(2), ...foreign()];
    const wanted = [
      ...usual(2).map(() => 'Allow'),
      ...scan(2).map(() => 'Drop'),
      ...foreign().map(() => 'Drop'),
    ];
    const verdicts = await observe(node.topology, again);
    assert.deepEqual(
      again.map((flow, i) => ({ flow, verdict: verdicts[i] })),
      again.map((flow, i) => ({ flow, verdict: wanted[i] })),
      text,
    );
    await audit.end('SIGTERM');
  });
});
