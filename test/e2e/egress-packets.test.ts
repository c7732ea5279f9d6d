/**
 * Egress gateways in a cluster, from kubectl to packets: a real API server, the controller, agents,
 * pods, and a server outside that sees by which address they left.
 */
import assert from 'node:assert/strict';
import { egressPolicy } from '../kernel/egress-agents.ts';
import { type LabFlow, SERVER, SERVER_PORT } from '../kernel/egress-lab.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { talk } from '../kernel/talk.ts';
import { until } from '../kernel/until.ts';
import { conditions, type EgressBed, gateway, startEgressBed } from './egress-bed.ts';

const NODES = ['plain', 'gw-1', 'gw-2'] as const;
const FLOWS: readonly LabFlow[] = ([4, 6] as const).flatMap((family) =>
  (['tcp', 'udp', 'icmp'] as const).map((protocol) => ({ family, protocol })),
);
const ON = 'NodeNetworkPolicy: true, EgressGateway: true';

kernelSuite('egress gateways in a cluster', function () {
  this.timeout(120_000);
  let bed: EgressBed;
  before(async function () {
    this.timeout(1_800_000);
    bed = await startEgressBed(NODES);
    await bed.setGates('NodeNetworkPolicy: true');
    await bed.startController();
    for (const node of NODES) bed.startAgent(node);
  });
  after(() => bed?.close());

  const policy = (to: string) => egressPolicy('web', ['plain-0'], { gateway: to });

  it('steers once the gate is turned on in the running cluster, and the statuses say so', async () => {
    await bed.apply(gateway('one', ['gw-1']), gateway('two', ['gw-2']), policy('one'));
    await bed.untilLeavesBy('plain-0', 'plain', FLOWS);
    await bed.setGates(ON);
    await bed.untilLeavesBy('plain-0', 'gw-1', FLOWS);
    await bed.untilLeavesBy('plain-1', 'plain', FLOWS);
    await bed.untilRealized('web');
    const tunnel = bed.lab.node('gw-1').v4;
    await until('the tunnel is in the status', async () => {
      const status = await bed.gatewayStatus('one');
      return JSON.stringify(status?.nodes) === JSON.stringify([{ name: 'gw-1', ready: true, tunnel }]);
    });
  });

  it('follows an edit of the policy with new connections', async () => {
    await bed.apply(policy('two'));
    await bed.untilLeavesBy('plain-0', 'gw-2', FLOWS);
    await bed.untilRealized('web');
  });

  it('ends what began before a policy that asks for it', async () => {
    const calls = (['tcp', 'udp'] as const).map((protocol) => ({
      name: protocol,
      host: SERVER.v4,
      port: SERVER_PORT,
      protocol,
    }));
    const answering = await talk(bed.lab.pod('plain-1').namespace, calls);
    await bed.apply(egressPolicy('late', ['plain-1'], { gateway: 'one', established: 'Recheck' }));
    await until(
      'the agent says how many it ended',
      async () => bed.agent('plain').log().includes('began before their egress policies'),
      { detail: bed.logs },
    );
    await bed.untilLeavesBy('plain-1', 'gw-1', FLOWS);
    await bed.lab.forget();
    assert.deepEqual(await answering(), ['udp']);
    assert.deepEqual([...(await bed.lab.seen()).keys()], [bed.lab.node('gw-1').v4]);
    await bed.cluster.remove('egresspolicies.nodewall.io', 'late', '--namespace=default');
    await bed.untilLeavesBy('plain-1', 'plain', FLOWS);
  });

  it('drops where the gateway is removed, and goes on when it is there again', async () => {
    await bed.cluster.remove('egressgateways.nodewall.io', 'two');
    await until('nothing leaves', async () => {
      const answers = await bed.sourcesOf('plain-0', FLOWS);
      return answers.every((one) => one === 'nothing');
    });
    await bed.apply(gateway('two', ['gw-2']));
    await bed.untilLeavesBy('plain-0', 'gw-2', FLOWS);
  });

  it('names what a gateway lacks', async () => {
    const { namespace } = bed.lab.node('gw-2');
    const rule = ['pref', '71', 'from', '192.0.2.250'];
    await namespace.run(['ip', 'rule', 'add', ...rule]);
    await namespace.run(['ip', 'rule', 'del', 'pref', '71', 'fwmark', '0x40000000/0x40000000']);
    await until(
      'the status says it',
      async () =>
        /gateway gw-2: NetworkIncomplete: /.test(conditions((await bed.policyStatus('web'))?.conditions)),
      { detail: bed.logs },
    );
    await namespace.run(['ip', 'rule', 'del', ...rule]);
    await bed.untilRealized('web');
  });

  it('steers on without the controller, also after a restart of the agents', async () => {
    await bed.untilLeavesBy('plain-0', 'gw-2', FLOWS);
    // Not killed: the next one would wait for the Lease, to write statuses.
    await bed.agent('controller').end('SIGTERM');
    for (const node of ['plain', 'gw-2']) await bed.restartAgent(node, { signal: 'SIGKILL' });
    for (let i = 0; i < 3; i++)
      assert.deepEqual(await bed.sourcesOf('plain-0', FLOWS), addresses('gw-2'), bed.logs());
    await bed.startController();
    await bed.apply(policy('one'));
    await bed.untilLeavesBy('plain-0', 'gw-1', FLOWS);
  });

  it('names a gateway whose machine has the gate off, and removes what was there', async () => {
    await bed.restartAgent('gw-2', { options: ['--feature-gates', 'EgressGateway=false'] });
    const reason = 'AgentWithoutEgress: feature gate EgressGateway is off on this machine';
    await until(
      'the status says it',
      async () => (await bed.gatewayStatus('two'))?.nodes[0]?.reason === reason,
      { detail: bed.logs },
    );
    await nothingLeft('gw-2');
  });

  it('removes all of it when the gate is turned off', async () => {
    await bed.setGates('NodeNetworkPolicy: true, EgressGateway: false');
    await bed.untilLeavesBy('plain-0', 'plain', FLOWS);
    for (const node of NODES) await nothingLeft(node);
  });

  async function nothingLeft(node: string): Promise<void> {
    const { namespace } = bed.lab.node(node);
    const shown = async (...argv: string[]): Promise<string> =>
      (await namespace.run(argv, { anyStatus: true })).stdout;
    const left = async (): Promise<string> => {
      const links = await shown('ip', 'link', 'show', 'type', 'vxlan');
      const rules = /^7\d:.*$/m.exec(await shown('ip', 'rule'))?.[0] ?? '';
      const chains =
        /chain egress-s.*/.exec(await shown('nft', 'list', 'table', 'inet', 'nodewall'))?.[0] ?? '';
      return links + rules + chains;
    };
    await until(`${node} has nothing left`, async () => (await left()) === '', { detail: bed.logs });
  }

  const addresses = (node: string): string[] => [bed.lab.node(node).v4, bed.lab.node(node).v6].sort();
});
