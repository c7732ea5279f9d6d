/**
 * Gateways that die, seen by the nodes of pods: new connections go by another one, old ones end, and
 * nothing leaves with an address that no gateway has.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { type EgressAgents, egressAgents, egressPolicy, gateway } from './egress-agents.ts';
import { createEgressLab, type EgressLab, type LabFlow, SERVER, SERVER_PORT } from './egress-lab.ts';
import { kernelSuite } from './kernel-suite.ts';
import { talk } from './talk.ts';
import { until } from './until.ts';

const FLOWS: readonly LabFlow[] = ([4, 6] as const).flatMap((family) =>
  (['tcp', 'udp'] as const).map((protocol) => ({ family, protocol })),
);
const GATEWAY_NODES = ['gw-1', 'gw-2', 'gw-3'];
const RATE = 1_000;

kernelSuite('lost gateways', () => {
  let lab: EgressLab;
  let agents: EgressAgents;
  before(async () => {
    lab = await createEgressLab({ nodes: ['plain', ...GATEWAY_NODES], podsPerNode: 1 });
    agents = await egressAgents(lab);
    await agents.write('gateways.json', [gateway('one', GATEWAY_NODES)]);
    await agents.write('policies.json', [egressPolicy('all', ['plain-0'], { gateway: 'one' })]);
    for (const node of lab.nodes.keys()) agents.start(node);
    await untilLeavesBy(GATEWAY_NODES);
  });
  after(async () => {
    await agents?.close();
    await lab?.close();
  });

  const addressesOf = (nodes: readonly string[]): string[] =>
    nodes.flatMap((name) => [lab.node(name).v4, lab.node(name).v6]);

  /** The one node by which new connections of the pod leave. */
  async function untilLeavesBy(nodes: readonly string[]): Promise<string> {
    let found = '';
    await until(`new connections leave by one of ${nodes}`, async () => {
      await lab.forget();
      const answers = await lab.ask('plain-0', FLOWS, 50);
      const seen = [...(await lab.seen()).keys()];
      found = nodes.find((name) => seen.every((one) => addressesOf([name]).includes(one))) ?? '';
      return found !== '' && seen.length > 0 && answers.every((one) => one === 'reply');
    });
    return found;
  }

  async function cut(node: string): Promise<void> {
    await lab.node(node).namespace.run(['ip', 'link', 'set', 'eth0', 'down']);
  }

  async function mend(node: string): Promise<void> {
    const { namespace, v4, v6 } = lab.node(node);
    const index = GATEWAY_NODES.indexOf(node) + 1;
    await namespace.run(['ip', '-batch', '-'], {
      stdin: [
        'link set eth0 up',
        `addr replace ${v4}/24 dev eth0`,
        `addr replace ${v6}/64 dev eth0 nodad`,
        'route replace default via 192.0.2.100',
        'route replace default via 2001:db8:a::100',
        ...[...lab.nodes.keys()].flatMap((other, i) => {
          if (i === index) return [];
          return [
            `route replace 10.244.${i + 1}.0/24 via ${lab.node(other).v4}`,
            `route replace fd00:10:244:${i + 1}::/64 via ${lab.node(other).v6}`,
          ];
        }),
      ].join('\n'),
    });
  }

  it('new connections go by the next gateway, old ones end, and nothing has a foreign address', async () => {
    const first = await untilLeavesBy(GATEWAY_NODES);
    const calls = (['tcp', 'udp'] as const).flatMap((protocol) =>
      [SERVER.v4, SERVER.v6].map((host) => ({
        ...{ name: `${protocol} ${host}`, host, port: SERVER_PORT, protocol },
      })),
    );
    const answering = await talk(lab.pod('plain-0').namespace, calls);
    assert.equal((await answering()).length, calls.length);
    await lab.forget();
    const stop = await lab.flood('plain-0', { family: 4, protocol: 'udp' }, RATE);
    await cut(first);
    const next = await untilLeavesBy(GATEWAY_NODES.filter((name) => name !== first));
    // UDP goes on by the next gateway; TCP has been reset.
    const left = await answering();
    assert.deepEqual(
      left,
      [SERVER.v4, SERVER.v6].map((host) => `udp ${host}`),
    );
    const sent = await stop();
    const { stdout } = await lab.node('plain').namespace.run(['conntrack', '-L', '-p', 'tcp']);
    process.stdout.write(`${first} ${next} ${sent} ${stdout}\n`);
    await mend(first);
    assert.equal(await untilLeavesBy([first]), first);
  });

  it('a gateway whose agent is dead or starts again is not lost', async () => {
    const first = await untilLeavesBy(GATEWAY_NODES);
    await agents.agent(first).end('SIGKILL');
    await sleep(1_000);
    agents.start(first);
    await sleep(1_000);
    assert.equal(await untilLeavesBy([first]), first);
    process.stdout.write(agents.agent('plain').log());
  });
});
