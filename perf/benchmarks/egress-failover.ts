import { type EgressAgents, egressAgents, egressPolicy, gateway } from '../../test/kernel/egress-agents.ts';
import { createEgressLab, type EgressLab, SERVER, SERVER_PORT } from '../../test/kernel/egress-lab.ts';
import { until } from '../../test/kernel/until.ts';
import { atMost, type Benchmark, figure, trials } from '../measure/figure.ts';
import { newConnections, now } from '../measure/new-connections.ts';

const NODES = ['gw-1', 'gw-2', 'gw-3'];

/** What one loss costs, in milliseconds. */
interface Loss {
  /**
   * Between the last new connection that the lost gateway answered and the first that another did.
   */
  readonly gap: number;
  /** From the loss until an open connection of TCP is reset. */
  readonly reset: number;
  /** The gap when the gateway is back. */
  readonly back: number;
}

export const egressFailover: Benchmark = {
  name: 'egress-failover',
  title: "a gateway's power is lost",
  how: 'A pod’s node and three gateways with their own addresses (source Node), each with a stand-alone agent, in network namespaces joined by a bridge. The bridge drops all of the gateway’s frames from one moment on, without a sign at either end. Every 5 ms a pod begins a connection (UDP), and it writes to an open one (TCP) every 10 ms.',
  async run(settings) {
    const lab = await createEgressLab({ nodes: ['plain', ...NODES], podsPerNode: 1 });
    const agents = await egressAgents(lab);
    const losses: Loss[] = [];
    try {
      await agents.write('gateways.json', [gateway('one', NODES)]);
      await agents.write('policies.json', [egressPolicy('all', ['plain-0'], { gateway: 'one' })]);
      for (const node of lab.nodes.keys()) agents.start(node);
      await agents.untilInForce('plain', /EgressPolicy default\/all/);
      const first = await ownerOf(lab);
      for (let i = 0; i < trials(settings, 20, 10); i++) losses.push(await lose(lab, agents, first));
    } finally {
      await agents.close();
      await lab.close();
    }
    const worst = (of: keyof Loss) => ({
      note: `worst of ${losses.length}: ${Math.max(...losses.map((loss) => loss[of])).toFixed(0)} ms`,
    });
    const values = (of: keyof Loss) => losses.map((loss) => loss[of]);
    return [
      figure('new connections, until another gateway takes them', 'ms', values('gap'), {
        target: atMost(1_000),
        ...worst('gap'),
      }),
      figure('an open connection, until its client is told (reset)', 'ms', values('reset'), {
        target: atMost(1_000),
        ...worst('reset'),
      }),
      figure(
        'the gateway is back: longest time without a new connection',
        'ms',
        values('back'),
        worst('back'),
      ),
    ];
  },
};

/** The node that takes the pod's connections. */
async function ownerOf(lab: EgressLab): Promise<string> {
  let found: string | undefined;
  await until('new connections are answered', async () => {
    await lab.forget();
    const [answer] = await lab.ask('plain-0', [{ family: 4, protocol: 'udp' }], 50);
    const [address] = (await lab.seen()).keys();
    found = NODES.find((name) => lab.node(name).v4 === address);
    return answer === 'reply' && found !== undefined;
  });
  return found ?? '';
}

async function lose(lab: EgressLab, agents: EgressAgents, gatewayNode: string): Promise<Loss> {
  const said = (text: string): number => agents.agent('plain').log().split(text).length;
  const [lost, back] = ['does not answer through the tunnel', 'answers through the tunnel again'];
  const connections = newConnections(lab.pod('plain-0').namespace, SERVER.v4, SERVER_PORT);
  try {
    await until('connections are answered', async () => connections.begun().length > 50);
    const before = [said(lost), said(back)];
    const begin = now();
    await lab.port(gatewayNode, 'down');
    const done = now();
    await until('another gateway takes them', async () => {
      const late = connections.begun().filter((at) => at > done + 100);
      return late.length > 50 && connections.reset() !== null;
    });
    if (said(lost) === before[0]) throw new Error('the gateway was not taken for lost');
    const mended = now();
    await lab.port(gatewayNode, 'up');
    await until('the gateway is back', async () => said(back) > (before[1] ?? 0));
    const again = now();
    await until('connections are answered', async () => (connections.begun().at(-1) ?? 0) > again + 200);
    return {
      gap: longestGap(connections.begun(), begin, mended),
      reset: (connections.reset() ?? Number.NaN) - begin,
      back: longestGap(connections.begun(), mended, again + 200),
    };
  } finally {
    connections.stop();
  }
}

function longestGap(begun: readonly number[], from: number, to: number): number {
  const within = begun.filter((at) => at > from - 50 && at < to);
  return Math.max(...within.map((at, i) => at - (within[i - 1] ?? at)));
}
