import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { addressPlan } from '../../test/netns/address-plan.ts';
import type { Namespace } from '../../test/netns/namespace.ts';
import { createTopology } from '../../test/netns/topology.ts';
import { probeProgram } from '../../test/probe/probe.ts';
import { hasClient, portOf, THOUSAND_RULES } from '../generate/cluster.ts';
import { writeManifests } from '../generate/manifests.ts';
import { agentCommand } from '../measure/agent.ts';
import { atLeast, type Benchmark, figure } from '../measure/figure.ts';
import { pause } from '../measure/process.ts';
import { median } from '../measure/statistics.ts';

/** The last rule in order is the one that lets the client in. */
export const RULE = THOUSAND_RULES.rules - 1;
export const CLIENT = '10.100.0.0/24';

/** Both hooks, as nodewall has them. */
const STATEFUL = `table inet stateful {
  chain input { type filter hook input priority 0; policy accept; ct state established,related accept; }
  chain output { type filter hook output priority 0; policy accept; ct state established,related accept; }
}
`;

const FIREWALLS = ['none', 'stateful', 'indexed', 'linear'] as const;
type Firewall = (typeof FIREWALLS)[number];

/** On one processor, before others that want it. */
const ALONE = ['nice', '-n', '-20', 'taskset', '-c', '1'];

export interface Rate {
  readonly perSecond: number;
  /** Processor time of the whole machine a connection, µs; other work on the machine included. */
  readonly busy: number;
}

export const rate: Benchmark = {
  name: 'rate',
  title: 'TCP_CRR',
  how: '`test/probe crr`: connect, one byte each way, close, one at a time, from a client namespace to the port of the last of 1,000 rules, which lets it in. Client and server share one processor, at a high priority: where the scheduler puts them else changes the rate by half, and so the rate is the cost of a whole connection. The firewalls take turns, each trial in new namespaces; a share is of the stateful table of the same round.',
  async run(settings) {
    const manifests = join(settings.folder, 'manifests');
    if (!hasClient(THOUSAND_RULES, RULE)) throw new Error(`rule ${RULE} is not for the client`);
    await writeManifests(manifests, THOUSAND_RULES, { client: CLIENT });
    const config = join(settings.folder, 'linear.yaml');
    await writeFile(config, "dispatch: linear\ninterfaceGroupFile: ''\n");
    const seconds = settings.quick ? 1 : 2;
    const rounds = settings.quick ? 3 : 9;
    const measured: Record<Firewall, Rate[]> = { none: [], stateful: [], indexed: [], linear: [] };
    for (let round = 0; round < rounds; round++) {
      // Each firewall is first as often as last.
      const order = FIREWALLS.map((_, i) => FIREWALLS[(i + round) % FIREWALLS.length] ?? 'none');
      for (const firewall of order) {
        const stateDir = join(settings.folder, `state-${round}-${firewall}`);
        await mkdir(stateDir, { recursive: true });
        const load = (node: Namespace) => loadFirewall(node, firewall, { manifests, config, stateDir });
        measured[firewall].push(await trial(load, seconds));
      }
    }
    return toFigures(measured);
  },
};

function toFigures(measured: Readonly<Record<Firewall, readonly Rate[]>>) {
  const rates = (firewall: Firewall) => measured[firewall].map(({ perSecond }) => perSecond);
  const shares = (firewall: Firewall) =>
    measured[firewall].map(
      ({ perSecond }, i) => (100 * perSecond) / (measured.stateful[i]?.perSecond ?? Number.NaN),
    );
  const busy = (firewall: Firewall) =>
    `${median(measured[firewall].map((one) => one.busy)).toFixed(1)} µs of processor a connection, whole machine`;
  const ratio = (100 * median(rates('indexed'))) / median(rates('stateful'));
  return [
    figure('TCP_CRR with 1,000 rules against an empty stateful table', '%', shares('indexed'), {
      target: atLeast(95),
      note: `medians against each other: ${ratio.toFixed(1)} %`,
    }),
    figure('… with dispatch: linear', '%', shares('linear')),
    figure('connections without a firewall', '1/s', rates('none'), { note: busy('none') }),
    figure('connections with the empty stateful table', '1/s', rates('stateful'), { note: busy('stateful') }),
    figure('connections with 1,000 rules, indexed', '1/s', rates('indexed'), { note: busy('indexed') }),
    figure('connections with 1,000 rules, linear', '1/s', rates('linear'), { note: busy('linear') }),
  ];
}

interface Files {
  readonly manifests: string;
  readonly config: string;
  readonly stateDir: string;
}

async function loadFirewall(node: Namespace, firewall: Firewall, { config, ...place }: Files): Promise<void> {
  switch (firewall) {
    case 'none':
      return;
    case 'stateful':
      await node.run(['nft', '-f', '-'], { stdin: STATEFUL });
      return;
    case 'indexed':
      await node.run(agentCommand({ ...place, options: ['--once'] }));
      return;
    case 'linear':
      await node.run(agentCommand({ ...place, options: ['--once', '--config', config] }));
      return;
  }
}

/** One trial in namespaces of its own: connections to the port of the last rule. */
export async function trial(load: (node: Namespace) => Promise<void>, seconds: number): Promise<Rate> {
  const plan = addressPlan({ clients: 1, nodeAddresses: 1, addressesPerClient: 1 });
  const topology = await createTopology(plan);
  try {
    const probe = await probeProgram();
    const [client] = topology.clients;
    const [{ v4: address } = { v4: '' }] = plan.nodeAddresses;
    if (client === undefined) throw new Error('no client');
    await load(topology.node);
    const server = topology.node.spawn([...ALONE, probe, 'serve', '--port', String(portOf(RULE))]);
    await once(server.stdout, 'data');
    const crr = (time: number) =>
      client.run([
        ...ALONE,
        probe,
        'crr',
        '--dst',
        address,
        '--port',
        String(portOf(RULE)),
        '--seconds',
        String(time),
      ]);
    await crr(0.3);
    await pause(100);
    const { stdout } = await crr(seconds);
    const { transactions, failed, perSecond, busySeconds } = JSON.parse(stdout) as Record<string, number>;
    if (transactions === undefined || perSecond === undefined || failed !== 0)
      throw new Error(`failed: ${stdout}`);
    return { perSecond, busy: (1e6 * (busySeconds ?? Number.NaN)) / transactions };
  } finally {
    await topology.close();
  }
}
