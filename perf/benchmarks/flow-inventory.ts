import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { FLOWS_FILE, FlowInventory, inventoryText } from '../../agent/flows/flow-inventory.ts';
import type { SeenFlow } from '../../agent/flows/flow-kind.ts';
import { stateFile } from '../../lib/process/state-file.ts';
import type { Namespace } from '../../test/netns/namespace.ts';
import { addressPlan, createTopology } from '../../test/netns/topology.ts';
import { probeProgram } from '../../test/probe/probe.ts';
import { NODE_NAME, portOf, THOUSAND_RULES } from '../generate/cluster.ts';
import { writeManifests } from '../generate/manifests.ts';
import { type MeasuredAgent, startAgent } from '../measure/agent.ts';
import { ratesByTurns } from '../measure/connections.ts';
import { amount, atLeast, atMost, type Benchmark, figure, type Settings } from '../measure/figure.ts';
import { CLIENT, NODE_ADDRESS, RULE } from './rate.ts';

const VARIANTS = ['without', 'with'] as const;
type Variant = (typeof VARIANTS)[number];

/** New connections a second. */
const RATES = [1_000, 10_000] as const;
const SECONDS = 6;
const KINDS = 10_000;

export const flowInventory: Benchmark = {
  name: 'flow-inventory',
  title: 'the flow inventory',
  how: `TCP_CRR as in \`rate\`, through the last of 1,000 rules, by turns beside an agent with the flow inventory and one with flowInventory.enabled: false; a share is of the latter in the same turn. Then, with ${KINDS.toLocaleString('en')} kinds saved by an earlier agent, \`test/probe flood\` sends UDP packets, each a new connection, at a fixed rate for ${SECONDS} s: processor time of the agent (/proc/PID/stat) and its resident memory at most, with the inventory less without.`,
  async run(settings) {
    const manifests = join(settings.folder, 'manifests');
    await writeManifests(manifests, THOUSAND_RULES, { client: CLIENT });
    return [...(await rateFigures(settings, manifests)), ...(await costFigures(settings, manifests))];
  },
};

async function rateFigures(settings: Settings, manifests: string) {
  const agents: MeasuredAgent[] = [];
  const measured = await ratesByTurns({
    connection: { destination: NODE_ADDRESS, port: portOf(RULE) },
    names: VARIANTS,
    async load(node, variant) {
      const folder = join(settings.folder, `rate-${agents.length}`);
      agents.push(await startedAgent(node, { folder, manifests, variant }));
    },
    rounds: amount(settings, [1, 1, 2]),
    bursts: amount(settings, [6, 10, 24]),
    seconds: 0.5,
  });
  const rates = (variant: Variant) => measured[variant].map(({ perSecond }) => perSecond);
  const shares = rates('with').map((one, i) => (100 * one) / (rates('without')[i] ?? Number.NaN));
  return [
    figure('TCP_CRR with the flow inventory, against without', '%', shares, { target: atLeast(98) }),
    figure('connections without', '1/s', rates('without')),
  ];
}

interface Cost {
  /** Percent of one core. */
  readonly processor: number;
  /** Megabytes, at most. */
  readonly memory: number;
}

async function costFigures(settings: Settings, manifests: string) {
  const figures = [];
  for (const rate of RATES) {
    const found: Record<Variant, Cost[]> = { without: [], with: [] };
    for (let round = 0; round < amount(settings, [1, 2, 3]); round++)
      for (const variant of VARIANTS) {
        const folder = join(settings.folder, `cost-${rate}-${round}-${variant}`);
        found[variant].push(await costTrial({ folder, manifests, variant }, rate));
      }
    const more = (key: keyof Cost) =>
      found.with.map((one, i) => one[key] - (found.without[i]?.[key] ?? Number.NaN));
    figures.push(
      figure(`${rate.toLocaleString('en')} new connections/s: agent, of one core`, '%', more('processor')),
      figure('… agent, resident memory at most', 'MB', more('memory'), { target: atMost(25) }),
    );
  }
  return figures;
}

interface Place {
  readonly folder: string;
  readonly manifests: string;
  readonly variant: Variant;
}

async function costTrial(place: Place, rate: number): Promise<Cost> {
  const topology = await createTopology(addressPlan({ clients: 1, nodeAddresses: 1, addressesPerClient: 1 }));
  try {
    await stateFile(join(place.folder, 'state'), FLOWS_FILE).write(inventoryText(fullInventory(), NODE_NAME));
    const agent = await startedAgent(topology.node, place);
    const before = await agent.processorTime();
    const ends = ['--src', '10.100.0.10', '--dst', NODE_ADDRESS, '--port', String(portOf(RULE))];
    const speed = ['--rate', String(rate), '--seconds', String(SECONDS)];
    await topology.clients[0]?.run([await probeProgram(), 'flood', ...ends, ...speed]);
    const processor = (100 * ((await agent.processorTime()) - before)) / SECONDS;
    const { peak } = await agent.memory();
    await agent.stop();
    return { processor, memory: peak };
  } finally {
    await topology.close();
  }
}

/** Settled: what a start costs is none of the inventory's. */
async function startedAgent(
  namespace: Namespace,
  { folder, manifests, variant }: Place,
): Promise<MeasuredAgent> {
  const stateDir = join(folder, 'state');
  await mkdir(stateDir, { recursive: true, mode: 0o700 });
  const config = join(folder, 'config.yaml');
  const own = { interfaceGroupFile: '', interfaceGroups: { pods: { group: 8, match: [] } } };
  await writeFile(config, JSON.stringify({ ...own, flowInventory: { enabled: variant === 'with' } }));
  const agent = startAgent({ namespace, manifests, stateDir, config });
  await agent.untilEnforced(1);
  await pause(1500);
  return agent;
}

/** As wide as they come: IPv6, of different peers and ports. */
function fullInventory(): FlowInventory {
  const now = Date.now();
  const inventory = new FlowInventory(now, {
    kinds: KINDS,
    peers: KINDS,
    networks: KINDS,
    ports: KINDS,
    newcomers: KINDS,
    age: Infinity,
  });
  for (let i = 0; i < KINDS; i++) {
    const flow: SeenFlow = {
      direction: 'ingress',
      traffic: 'Host',
      verdict: 'Allow',
      protocol: 6,
      group: 0,
      peer: `fd90:100:1234:5678:9abc:def0:1:${i.toString(16)}`,
      port: 1 + i,
      type: null,
      code: null,
      local: 'fd90:100:1234:5678:9abc:def0:2:1',
      srcPort: 40_000,
      originalDst: null,
      originalPort: null,
    };
    inventory.seen(inventory.kindOf(flow, now), flow, { now, connections: 1 });
  }
  return inventory;
}
