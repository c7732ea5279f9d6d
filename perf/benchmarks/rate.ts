import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Namespace } from '../../test/netns/namespace.ts';
import { hasClient, portOf, THOUSAND_RULES } from '../generate/cluster.ts';
import { writeManifests } from '../generate/manifests.ts';
import { STATEFUL } from '../layouts/nft.ts';
import { agentCommand } from '../measure/agent.ts';
import { type Rate, ratesByTurns, rateTrial } from '../measure/connections.ts';
import { atLeast, type Benchmark, figure } from '../measure/figure.ts';
import { median } from '../measure/statistics.ts';

/** The last rule in order is the one that lets the client in. */
export const RULE = THOUSAND_RULES.rules - 1;
export const CLIENT = '10.100.0.0/24';
/** Of test/netns/topology.ts. */
export const NODE_ADDRESS = '10.90.0.10';

const FIREWALLS = ['none', 'stateful', 'indexed', 'linear'] as const;
type Firewall = (typeof FIREWALLS)[number];

export const rate: Benchmark = {
  name: 'rate',
  title: 'TCP_CRR',
  how: '`test/probe crr`: connect, one byte each way, close, one at a time, from a client namespace to the port of the last of 1,000 rules, which lets it in. Client and server share one processor, at a high priority: where the scheduler puts them else changes the rate by half, and so the rate is the cost of a whole connection. The firewalls stand beside each other in new namespaces and are measured by turns in short bursts; a share is of the stateful table in the same turn.',
  async run(settings) {
    const manifests = join(settings.folder, 'manifests');
    if (!hasClient(THOUSAND_RULES, RULE)) throw new Error(`rule ${RULE} is not for the client`);
    await writeManifests(manifests, THOUSAND_RULES, { client: CLIENT });
    const config = join(settings.folder, 'linear.yaml');
    await writeFile(config, "dispatch: linear\ninterfaceGroupFile: ''\n");
    let loads = 0;
    const measured = await ratesByTurns({
      connection: { destination: NODE_ADDRESS, port: portOf(RULE) },
      names: FIREWALLS,
      async load(node, firewall) {
        const stateDir = join(settings.folder, `state-${loads++}`);
        await mkdir(stateDir, { recursive: true });
        await loadFirewall(node, firewall, { manifests, config, stateDir });
      },
      ...(settings.quick ? { rounds: 1, bursts: 4, seconds: 0.25 } : { rounds: 3, bursts: 7, seconds: 0.4 }),
    });
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
export function trial(load: (node: Namespace) => Promise<void>, seconds: number): Promise<Rate> {
  return rateTrial({ connection: { destination: NODE_ADDRESS, port: portOf(RULE) }, seconds, load });
}
