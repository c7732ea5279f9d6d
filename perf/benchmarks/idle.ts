import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { portOf, THOUSAND_RULES } from '../generate/cluster.ts';
import { writeManifests, yamlText } from '../generate/manifests.ts';
import { agentCommand } from '../measure/agent.ts';
import { type Rate, ratesByTurns } from '../measure/connections.ts';
import { amount, atLeast, type Benchmark, figure } from '../measure/figure.ts';
import { median } from '../measure/statistics.ts';
import { CLIENT, NODE_ADDRESS, RULE } from './rate.ts';

/**
 * bare: 1,000 rules, none for NodePort traffic. idle: with its base chain, as it stays when the
 * last such rule is gone. others: besides, 50 rules for NodePort traffic and 50 that write records,
 * none of which the connections meet.
 */
const TABLES = ['bare', 'idle', 'others'] as const;
type Table = (typeof TABLES)[number];

const RETIRED =
  'add chain inet nodewall prerouting { type filter hook prerouting priority -90; policy accept; }';

export const idle: Benchmark = {
  name: 'idle',
  title: 'what is not used',
  how: 'As `rate`: 1,000 rules, the connections go to the port of the last. The tables take turns as there; a share is of the bare table in the same turn.',
  async run(settings) {
    const manifests = join(settings.folder, 'manifests');
    const more = join(settings.folder, 'more');
    await writeManifests(manifests, THOUSAND_RULES, { client: CLIENT });
    await cp(manifests, more, { recursive: true });
    await writeFile(join(more, 'others.yaml'), yamlText(otherPolicies()));
    let loads = 0;
    const measured = await ratesByTurns({
      connection: { destination: NODE_ADDRESS, port: portOf(RULE) },
      names: TABLES,
      async load(node, table) {
        const stateDir = join(settings.folder, `state-${loads++}`);
        await mkdir(stateDir, { recursive: true });
        const place = { manifests: table === 'others' ? more : manifests, stateDir };
        await node.run(agentCommand({ ...place, options: ['--once'] }));
        if (table === 'idle') await node.run(['nft', RETIRED]);
      },
      ...amount(settings, [
        { rounds: 1, bursts: 4, seconds: 0.25 },
        { rounds: 3, bursts: 8, seconds: 0.4 },
        { rounds: 4, bursts: 10, seconds: 0.4 },
      ]),
    });
    return toFigures(measured);
  },
};

function toFigures(measured: Readonly<Record<Table, readonly Rate[]>>) {
  const shares = (table: Table) =>
    measured[table].map(
      ({ perSecond }, i) => (100 * perSecond) / (measured.bare[i]?.perSecond ?? Number.NaN),
    );
  const middle = (table: Table) => median(measured[table].map(({ perSecond }) => perSecond));
  const against = (table: Table) => ({
    target: atLeast(99),
    note: `medians against each other: ${((100 * middle(table)) / middle('bare')).toFixed(1)} %`,
  });
  return [
    figure(
      'TCP_CRR with the NodePort chain left over, without rules, of the table without it',
      '%',
      shares('idle'),
      against('idle'),
    ),
    figure('… with NodePort and recording rules for other traffic', '%', shares('others'), against('others')),
  ];
}

function otherPolicies(): object[] {
  const policy = (name: string, spec: object) => ({
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name },
    spec: { priority: 1, appliedTo: [{ nodeSelector: {} }], ...spec },
  });
  const rules = (changes: (index: number) => object) =>
    Array.from({ length: 50 }, (_, i) => ({ name: `rule-${i}`, action: 'Drop', ...changes(i) }));
  return [
    policy('nodeports', { traffic: 'NodePort', ingress: rules((i) => ({ ports: [{ port: 30_000 + i }] })) }),
    policy('recording', {
      ingress: rules((i) => ({ enableLogging: true, ports: [{ port: portOf(THOUSAND_RULES.rules) + i }] })),
    }),
  ];
}
