import { join } from 'node:path';
import { addressPlan, createTopology } from '../../test/netns/topology.ts';
import { type ClusterSize, THOUSAND_RULES } from '../generate/cluster.ts';
import { writeManifests } from '../generate/manifests.ts';
import { atMost, type Benchmark, type Figure, figure, type Settings, trials } from '../measure/figure.ts';
import { column, runTrial, type TrialName } from '../measure/process.ts';
import type { Variant } from '../trials/stages.ts';

const VARIANTS = ['nft', 'legacy'] as const satisfies readonly Variant[];
/** What the nearest peer, which has a process for each member, starts 50,000 for. */
const MANY_PEERS: ClusterSize = { rules: 100, sets: 100, members: 500, extraPods: 0 };

export const iptables: Benchmark = {
  name: 'iptables',
  title: 'the iptables dataplane',
  how: 'As `apply` and `members` (the same trials), by IptablesReconciler in an empty network namespace each, with either iptables. Processes are all that an apply starts: what reads before it, and what changes. Connections are in `layouts`.',
  async run(settings) {
    const figures: Figure[] = [];
    const folders = {
      rules: join(settings.folder, 'rules'),
      peers: join(settings.folder, 'peers'),
      crowd: join(settings.folder, 'crowd'),
    };
    await writeManifests(folders.rules, THOUSAND_RULES);
    await writeManifests(folders.peers, MANY_PEERS);
    await writeManifests(folders.crowd, { ...THOUSAND_RULES, extraPods: 100_000 });
    for (const variant of VARIANTS) {
      figures.push(...(await firstApply(variant, folders.rules, settings)));
      figures.push(...(await manyPeers(variant, folders.peers, settings)));
      figures.push(...(await manyMembers(variant, folders.crowd, settings)));
    }
    return figures;
  },
};

async function firstApply(variant: Variant, manifests: string, settings: Settings): Promise<Figure[]> {
  const rows = await repeated(trials(settings, 11, 3), 'apply', { manifests, variant });
  const of = `iptables-${variant}:`;
  return [
    figure(`${of} first apply of 1,000 rules, 200 sets`, 's', seconds(column(rows, 'apply')), {
      target: atMost(0.3),
    }),
    figure('… processes started for it', 'processes', column(rows, 'processes'), { target: atMost(6) }),
    figure('… compile, render and apply', 's', seconds(column(rows, 'compileRenderApply'))),
    figure('one rule changed of them: apply alone', 'ms', column(rows, 'secondChangeApply')),
    figure('one rule changed of them: compile and render', 'ms', column(rows, 'secondChangeRender')),
  ];
}

async function manyPeers(variant: Variant, manifests: string, settings: Settings): Promise<Figure[]> {
  const rows = await repeated(trials(settings, 5, 2), 'apply', { manifests, variant });
  return [
    figure(
      `iptables-${variant}: processes started for 100 rules with 500 peers each`,
      'processes',
      column(rows, 'processes'),
      { target: atMost(6), note: 'a process for each peer would be 50,000' },
    ),
    figure('… first apply of them', 's', seconds(column(rows, 'apply'))),
  ];
}

async function manyMembers(variant: Variant, manifests: string, settings: Settings): Promise<Figure[]> {
  const amount = trials(settings, 5, 2);
  const hash = await repeated(amount, 'members', { manifests, interval: false, variant });
  const net = await repeated(amount, 'members', { manifests, interval: true, variant });
  const of = `iptables-${variant}:`;
  return [
    figure(`${of} 100,000 pod addresses into one set`, 's', seconds(column(hash, 'fill')), {
      target: atMost(0.5),
    }),
    figure(`${of} one address added to it`, 'ms', column(hash, 'add'), { target: atMost(5) }),
    figure('… one address taken from it', 'ms', column(hash, 'remove')),
    figure('… one address added, compile and render included', 'ms', column(hash, 'addWithCompile')),
    figure('100,000 addresses beside a prefix (hash:net)', 's', seconds(column(net, 'fill'))),
    figure('… one address added to that one', 'ms', column(net, 'add')),
  ];
}

/** Each in a process and a network namespace of its own. */
async function repeated(amount: number, trial: TrialName, input: object): Promise<Record<string, number>[]> {
  const rows: Record<string, number>[] = [];
  for (let i = 0; i < amount; i++) {
    const topology = await createTopology(addressPlan({ clients: 0 }));
    try {
      rows.push(await runTrial(trial, input, topology.node));
    } finally {
      await topology.close();
    }
  }
  return rows;
}

function seconds(milliseconds: readonly number[]): number[] {
  return milliseconds.map((each) => each / 1000);
}
