/**
 * Egress gateways beside the version before, which knows nothing of them: an older agent, and then
 * an older controller.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { conditions, type EgressBed, startEgressBed } from '../e2e/egress-bed.ts';
import { egressPolicy, gateway } from '../kernel/egress-agents.ts';
import type { LabFlow } from '../kernel/egress-lab.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { policy, tcp } from '../kernel/manifests.ts';
import { until } from '../kernel/until.ts';
import { missingPreviousRelease, previousRelease } from './previous-release.ts';

const NODES = ['plain', 'other', 'gw-1'] as const;
const FLOWS: readonly LabFlow[] = [
  { family: 4, protocol: 'tcp' },
  { family: 6, protocol: 'udp' },
];

kernelSuite('egress gateways beside the version before', function () {
  this.timeout(180_000);
  let bed: EgressBed;
  let program: string;
  before(async function () {
    this.timeout(1_800_000);
    const missing = await missingPreviousRelease();
    if (missing !== null) {
      process.stderr.write(`skipped: egress gateways beside the version before: ${missing}\n`);
      return this.skip();
    }
    program = join(await previousRelease(), 'bin/nodewall');
    bed = await startEgressBed(NODES);
    await bed.setGates('NodeNetworkPolicy: true, EgressGateway: true');
    await bed.startController();
    for (const node of ['plain', 'gw-1']) bed.startAgent(node);
    bed.startAgent('other', { program });
    await bed.apply(
      gateway('one', ['gw-1']),
      egressPolicy('web', ['plain-0'], { gateway: 'one' }),
      egressPolicy('old', ['other-0'], { gateway: 'one' }),
    );
    await bed.untilLeavesBy('plain-0', 'gw-1', FLOWS);
  });
  after(() => bed?.close());

  const closes = async (port: number): Promise<void> => {
    const ingress = [{ name: 'close', action: 'Drop', ports: [tcp(port)] }];
    const appliedTo = [{ nodeSelector: {} }];
    await bed.apply({ ...policy('closed', {}), spec: { priority: 5, appliedTo, ingress } });
    for (const node of NODES) {
      const { namespace } = bed.lab.node(node);
      const listed = async () =>
        (await namespace.run(['nft', 'list', 'table', 'inet', 'nodewall'], { anyStatus: true })).stdout;
      await until(`${node} closes ${port}`, async () => (await listed()).includes(String(port)), {
        limit: 45_000,
        detail: bed.logs,
      });
    }
  };

  it('an older agent enforces its rules, and policies name its node', async () => {
    await closes(4001);
    await bed.untilRealized('web');
    await until(
      'the status says it',
      async () => /other: AgentWithoutEgress/.test(conditions((await bed.policyStatus('old'))?.conditions)),
      { detail: bed.logs },
    );
    assert.deepEqual(await bed.sourcesOf('other-0', FLOWS), addresses('other'));
  });

  it('with an older controller rules change, and what is steered stays', async () => {
    await bed.startController({ program });
    await closes(4002);
    assert.deepEqual(await bed.sourcesOf('plain-0', FLOWS), addresses('gw-1'));
    await bed.startController();
    await closes(4003);
    assert.deepEqual(await bed.sourcesOf('plain-0', FLOWS), addresses('gw-1'));
  });

  const addresses = (node: string): string[] => [bed.lab.node(node).v4, bed.lab.node(node).v6].sort();
});
