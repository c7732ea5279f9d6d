import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Namespace } from '../../test/netns/namespace.ts';
import { addressPlan, createTopology } from '../../test/netns/topology.ts';
import { probeProgram } from '../../test/probe/probe.ts';
import { NODE_NAME, nodes, portOf, THOUSAND_RULES } from '../generate/cluster.ts';
import { writeManifests, yamlText } from '../generate/manifests.ts';
import { agentCommand, startAgent } from '../measure/agent.ts';
import type { Rate } from '../measure/connections.ts';
import { amount, atLeast, atMost, type Benchmark, figure, type Settings } from '../measure/figure.ts';
import { CLIENT, RULE, trial } from './rate.ts';

const PORT = 9000;
/** New connections a second. */
const RATES = [2_000, 10_000] as const;

export const record: Benchmark = {
  name: 'record',
  title: 'the record',
  how: "`test/probe flood` sends UDP packets, each a new connection, at a fixed rate to a port that a rule with enableLogging drops, no limit set (log.rate 0): lines in the file against packets, and the agent's processor time (/proc/PID/stat) meanwhile. Then TCP_CRR as in `rate`, through a rule before 1,000 others: loaded by `agent --once`, with the agent running, and with the rule's enableLogging (default limit, no limit). A share is of `agent --once` in the same round.",
  async run(settings) {
    const recorded = [];
    for (const perSecond of RATES) recorded.push(...(await recordingFigures(settings, perSecond)));
    return [...recorded, ...(await rateFigures(settings))];
  },
};

interface Flood {
  /** Percent of the packets that have a line. */
  readonly recorded: number;
  /** Percent of one core. */
  readonly processor: number;
  readonly packets: number;
  /** Megabytes. */
  readonly memory: number;
}

async function recordingFigures(settings: Settings, perSecond: number) {
  const found: Flood[] = [];
  for (let i = 0; i < amount(settings, [1, 2, 5]); i++) {
    found.push(
      await floodTrial(join(settings.folder, `flood-${perSecond}-${i}`), perSecond, settings.quick ? 3 : 10),
    );
  }
  const column = (key: keyof Flood) => found.map((one) => one[key]);
  const isTarget = perSecond === RATES[0];
  const what = `${perSecond.toLocaleString('en')} new connections/s`;
  const packets = column('packets').join(', ');
  return [
    figure(`${what}: recorded`, '%', column('recorded'), {
      ...(isTarget ? { target: atLeast(100) } : {}),
      note: `of ${packets}`,
    }),
    figure('… agent, of one core', '%', column('processor'), isTarget ? { target: atMost(30) } : {}),
    figure('… agent, resident memory after it', 'MB', column('memory')),
  ];
}

async function floodTrial(folder: string, perSecond: number, seconds: number): Promise<Flood> {
  const { manifests, stateDir, options } = await write(folder, { rate: 0 });
  await writeFile(join(manifests, 'nodes.yaml'), yamlText(nodes(THOUSAND_RULES, ['10.90.0.10'])));
  const drop = {
    name: 'drop',
    action: 'Drop',
    ports: [{ protocol: 'UDP', port: PORT }],
    enableLogging: true,
  };
  await writeFile(join(manifests, 'recorded.yaml'), yamlText([policy(drop)]));
  const topology = await createTopology(addressPlan({ clients: 1 }));
  try {
    const agent = startAgent({ namespace: topology.node, manifests, stateDir, options });
    await agent.untilEnforced(1);
    // What a start costs is none of the record's.
    await pause(1500);
    const ends = ['--src', '10.100.0.10', '--dst', '10.90.0.10', '--port', String(PORT)];
    const [client] = topology.clients;
    const before = await agent.processorTime();
    const argv = [
      await probeProgram(),
      'flood',
      ...ends,
      '--rate',
      String(perSecond),
      '--seconds',
      String(seconds),
    ];
    const output = (await client?.run(argv))?.stdout ?? '';
    const sent = Number(JSON.parse(output.trim().split('\n').at(-1) ?? '{}').sent);
    await pause(200);
    const processor = ((await agent.processorTime()) - before) / seconds;
    const { now: memory } = await agent.memory();
    await agent.stop();
    const text = await readFile(join(stateDir, 'records.jsonl'), 'utf8');
    const lines = text.split('\n').filter((line) => line.includes('"verdict":"Drop"')).length;
    return { recorded: (100 * lines) / sent, processor: 100 * processor, packets: sent, memory };
  } finally {
    await topology.close();
  }
}

const VARIANTS = ['once', 'agent', 'limited', 'unlimited'] as const;
type Variant = (typeof VARIANTS)[number];

async function rateFigures(settings: Settings) {
  const rounds = amount(settings, [1, 2, 9]);
  const measured: Record<Variant, Rate[]> = { once: [], agent: [], limited: [], unlimited: [] };
  for (let round = 0; round < rounds; round++) {
    for (const i of VARIANTS.keys()) {
      const variant = VARIANTS[(i + round) % VARIANTS.length] ?? 'once';
      const folder = join(settings.folder, `rate-${round}-${variant}`);
      const place = await write(folder, variant === 'unlimited' ? { rate: 0 } : {});
      await writeManifests(place.manifests, THOUSAND_RULES, { client: CLIENT });
      const isLogged = variant === 'limited' || variant === 'unlimited';
      const allow = {
        name: 'allow',
        action: 'Allow',
        ports: [{ protocol: 'TCP', port: portOf(RULE) }],
        enableLogging: isLogged,
      };
      await writeFile(join(place.manifests, 'recorded.yaml'), yamlText([policy(allow)]));
      measured[variant].push(await trial((node) => enforce(node, variant, place), settings.quick ? 1 : 2));
    }
  }
  const rates = (variant: Variant) => measured[variant].map(({ perSecond }) => perSecond);
  const shares = (variant: Variant) =>
    rates(variant).map((one, i) => (100 * one) / (rates('once')[i] ?? Number.NaN));
  return [
    figure('TCP_CRR without records, the agent running, against `agent --once`', '%', shares('agent')),
    figure('… every connection matches a rule with enableLogging, default limit', '%', shares('limited')),
    figure('… no limit', '%', shares('unlimited')),
    figure('connections with `agent --once`', '1/s', rates('once')),
  ];
}

interface Place {
  readonly manifests: string;
  readonly stateDir: string;
  readonly options: readonly string[];
}

async function enforce(namespace: Namespace, variant: Variant, place: Place): Promise<void> {
  if (variant === 'once')
    await namespace.run(agentCommand({ ...place, options: [...place.options, '--once'] }));
  else {
    await startAgent({ ...place, namespace }).untilEnforced(1);
    await pause(1500);
  }
}

async function write(folder: string, log: object): Promise<Place> {
  const [manifests, stateDir] = [join(folder, 'manifests'), join(folder, 'state')];
  await mkdir(manifests, { recursive: true });
  await mkdir(stateDir, { recursive: true });
  const config = join(folder, 'config.yaml');
  const own = { interfaceGroupFile: '', interfaceGroups: { pods: { group: 8, match: [] } } };
  await writeFile(config, JSON.stringify({ ...own, log: { maxBytes: 1_000_000_000, ...log } }));
  return { manifests, stateDir, options: ['--config', config] };
}

/** Before all others. */
function policy(rule: object): object {
  return {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name: 'recorded' },
    spec: {
      tier: 'emergency',
      priority: 1,
      appliedTo: [{ nodeSelector: { matchLabels: { 'kubernetes.io/hostname': NODE_NAME } } }],
      ingress: [rule],
    },
  };
}
