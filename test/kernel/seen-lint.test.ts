/** `nodewall lint` of the rules in force, by what the agent of a machine counted and saw. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { SeenFinding, SeenFindings } from '../../agent/inspect/seen-lint.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { kernelSuite } from './kernel-suite.ts';
import { policy, tcp } from './manifests.ts';
import { until } from './until.ts';
import { observe } from './verdicts.ts';

const MARKER = 21_000;
/** On the failsafe list of egress. */
const DNS = 53;

kernelSuite('lint by what was seen', () => {
  let node: EnforcedNode;
  before(async () => {
    node = await createEnforcedNode();
    await node.nft(
      'table inet tracked {\nchain i { type filter hook input priority 0; ct state established accept; }\n}\n',
    );
    await node.write('policies.json', [
      policy('web', {
        ingress: [
          { name: 'wide', action: 'Allow', ports: [tcp(1000, 9000)] },
          { name: 'ssh', action: 'Allow', ports: [tcp(22)] },
          { name: 'marker', action: 'Drop', ports: [tcp(MARKER)] },
        ],
        egress: [{ name: 'rest', action: 'Drop' }],
      }),
    ]);
  });
  after(() => node?.close());

  const lint = (...args: readonly string[]) => node.asked('lint', ...args);

  it('finds what no packet matched, what is wider, and what the failsafe list keeps', async () => {
    const agent = node.start();
    await node.untilEnforced(String(MARKER), agent);
    const saved = () => readFile(join(node.stateDir, 'counters.json'), 'utf8').catch(() => '');
    await until('its rules are counted', async () => (await saved()).includes('since'));
    const window = ['--window', new Date().toISOString()];
    const [own] = node.topology.plan.nodeAddresses;
    const [client] = node.topology.plan.clientAddresses;
    assert.ok(own !== undefined && client !== undefined);
    const flow = { direction: 'ingress', src: client.v4, dst: own.v4, protocol: 'tcp' } as const;
    const verdicts = await observe(node.topology, [
      { ...flow, dstPort: 7001 },
      { direction: 'egress', src: own.v4, dst: client.v4, protocol: 'udp', dstPort: DNS },
    ]);
    assert.deepEqual(verdicts, ['Allow', 'Allow']);
    await agent.end('SIGTERM');

    const { status, stdout, stderr } = await lint(...window, '-o', 'json');
    assert.equal(status, 1, stderr);
    const { findings, tooYoung, unseen }: SeenFindings = JSON.parse(stdout);
    const text = ({ kind, rule, networks, services }: SeenFinding) =>
      [kind, rule, networks.join(), services.join()].join(' ').trim();
    const network = client.v4.replace(/\.\d+$/, '.0/24');
    assert.deepEqual(findings.map(text), [
      `failsafe-in-effect rest ${network} udp ${DNS}`,
      'not-hit rest',
      'not-hit marker',
      'not-hit ssh',
      `wider-than-seen wide ${network} tcp 7001`,
    ]);
    assert.deepEqual([tooYoung, unseen], [0, []]);

    const shown = await lint(...window, '--only', 'wider-than-seen');
    assert.match(
      shown.stdout,
      new RegExp(
        `^wider-than-seen: web/wide \\(ingress\\) on node-0\n {2}allows any IPv4 address and any IPv6 address and 8001 ports; its flows since \\S+ had only tcp 7001, ${network}\n\n1 finding about 1 rule\\.\nJudged by what was counted and seen since \\S+\\.\n$`,
      ),
    );
    const young = await lint();
    assert.equal(young.status, 1, young.stderr);
    assert.match(
      young.stdout,
      /^failsafe-in-effect: web\/rest \(egress\) on node-0\n {2}would deny flows that the failsafe list keeps: udp 53, /,
    );
    assert.match(
      young.stdout,
      /; 3 more rules without a hit are not counted for so long; no flow inventory reaches back so far on node-0: /,
    );
    for (const args of [
      ['--window', 'x'],
      ['--node', 'a', '--all-nodes'],
      ['--manifests', node.manifests, '--all-nodes'],
    ]) {
      const wrong = await lint(...args);
      assert.equal(wrong.status, 2, `${args}: ${wrong.stderr}`);
    }
  });
});
