import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { addressPlan, createTopology } from '../../test/netns/topology.ts';
import { NODE_NAME } from '../generate/cluster.ts';
import { KIND_TITLES, KINDS, type Kind, ruleSet } from '../generate/kinds.ts';
import { writeRuleSet } from '../generate/ruleset.ts';
import { amount, atMost, type Benchmark, type Figure, figure } from '../measure/figure.ts';
import { memoryGroup } from '../measure/kernel-memory.ts';
import { measuredRun, NODEWALL, trialCommand } from '../measure/process.ts';

const RULES = 10_000;
/** Milliseconds; the kernel frees what it deleted a moment later (RCU). */
const SETTLE = 500;
const SOME_KINDS = ['ports', 'onePort', 'shared', 'fw'] as const satisfies readonly Kind[];
const DISPATCHES = ['linear', 'indexed'] as const;

interface Contents {
  readonly chains: number;
  readonly rules: number;
  readonly sets: number;
  readonly members: number;
  readonly maps: number;
  readonly mapElements: number;
  /** What the kernel keeps, megabytes; null where it cannot be told. */
  readonly megabytes: number | null;
}

export const index: Benchmark = {
  name: 'index',
  title: 'what the index takes',
  how: 'perf/trials/contents.ts enforces each kind of rule set (four of them in a run of all benchmarks) in an empty network namespace, once with `dispatch: linear` and once indexed, in a memory cgroup of its own: how much less the kernel accounts to it once the table is deleted. The rules’ own are those of `linear`: chains, rules, sets and the list of jumps; the index’s the difference. Beside it the estimate and the rules tried by a packet of `nodewall compile --stats`. Elements: what there is more of than with `linear`, of elements, rules, chains and maps, against the chains, rules, sets and members of `linear`; the bound that the index keeps to (agent/render/index/plan.ts) counts the same.',
  charts: [
    { name: 'memory', title: 'Kernel memory of the index against the rules’ own', x: 'kind', y: '×' },
    { name: 'tries', title: 'Rules tried by a packet', x: 'kind', y: 'rules' },
    { name: 'elements', title: 'Objects of the index against the rules’ own', x: 'kind', y: '×' },
  ],
  async run(settings) {
    const size = settings.quick ? 1000 : RULES;
    const figures: Figure[] = [];
    for (const kind of amount<readonly Kind[]>(settings, [SOME_KINDS, SOME_KINDS, KINDS])) {
      const manifests = join(settings.folder, kind);
      await writeRuleSet(manifests, ruleSet(kind, size));
      const [linear, indexed] = [await contents(manifests, 'linear'), await contents(manifests, 'indexed')];
      figures.push(
        ...toFigures(kind, size, linear, indexed),
        ...statsFigures(kind, size, await stats(manifests)),
      );
    }
    return figures;
  },
};

function toFigures(kind: Kind, size: number, linear: Contents, indexed: Contents): Figure[] {
  const of = `${size.toLocaleString('en')} rules, ${KIND_TITLES[kind]}`;
  const point = (chart: string) => ({ chart, series: `${size.toLocaleString('en')} rules`, x: kind });
  const own = objects(linear);
  const { maps, mapElements } = indexed;
  const result = [
    figure(`elements, rules, chains and maps of the index: ${of}`, '×', [(objects(indexed) - own) / own], {
      target: atMost(8),
      note: `${mapElements.toLocaleString('en')} elements in ${maps} maps; the rules’ own ${own.toLocaleString('en')}`,
      point: point('elements'),
    }),
    figure(`… elements alone, against rules and members: ${of}`, '×', [
      mapElements / (linear.rules + linear.members),
    ]),
  ];
  if (linear.megabytes === null || indexed.megabytes === null) return result;
  const more = Math.max(0, indexed.megabytes - linear.megabytes);
  return [
    figure(`kernel memory of the index: ${of}`, '×', [more / linear.megabytes], {
      target: atMost(8),
      note: `${more.toFixed(1)} MB; the rules’ own ${linear.megabytes.toFixed(1)} MB`,
      point: point('memory'),
    }),
    ...result,
  ];
}

/** All that the kernel keeps of the table, counted. */
function objects({ chains, rules, sets, members, maps, mapElements }: Contents): number {
  return chains + rules + sets + members + maps + mapElements;
}

/** `nodewall compile --stats -o json`, of what it says what is used here; memory in bytes. */
interface Stats {
  readonly memory: { readonly index: number; readonly rules: number };
  readonly parts: readonly {
    readonly rules: number;
    readonly way: string;
    readonly tries: { readonly mean: number | null; readonly worst: number };
  }[];
}

async function stats(manifests: string): Promise<Stats> {
  const options = ['--manifests', manifests, '--node', NODE_NAME, '--stats', '-o', 'json'];
  return JSON.parse((await measuredRun([NODEWALL, 'compile', ...options])).stdout) as Stats;
}

function statsFigures(kind: Kind, size: number, { memory, parts }: Stats): Figure[] {
  const of = `${size.toLocaleString('en')} rules, ${KIND_TITLES[kind]}`;
  const known = parts.flatMap(({ rules, tries: { mean } }) => (mean === null ? [] : [{ rules, mean }]));
  const all = known.reduce((sum, { rules }) => sum + rules, 0);
  const mean = known.reduce((sum, part) => sum + part.rules * part.mean, 0) / all;
  const point = (series: string) => ({ point: { chart: 'tries', series, x: kind } });
  const estimate = `estimated memory: index ${(memory.index / 1e6).toFixed(1)} MB, rules ${(memory.rules / 1e6).toFixed(1)} MB`;
  const note = `${[...new Set(parts.map(({ way }) => way))].join('; ')}; ${estimate}`;
  return [
    figure(`rules tried by a packet, mean: ${of}`, 'rules', [mean], { ...point('mean'), note }),
    figure(
      `… at most: ${of}`,
      'rules',
      [Math.max(...parts.map(({ tries }) => tries.worst))],
      point('at most'),
    ),
  ];
}

async function contents(manifests: string, dispatch: (typeof DISPATCHES)[number]): Promise<Contents> {
  const topology = await createTopology(addressPlan({ clients: 0 }));
  const group = await memoryGroup();
  try {
    const argv = trialCommand('contents', { manifests, dispatch });
    const { stdout } = await topology.node.run(group === null ? argv : group.command(argv), {
      timeout: 180_000,
    });
    const found = JSON.parse(stdout) as Omit<Contents, 'megabytes'>;
    if (group === null) return { ...found, megabytes: null };
    await pause(SETTLE);
    const before = await group.kernelBytes();
    await topology.node.run(['nft', 'delete', 'table', 'inet', 'nodewall']);
    await pause(SETTLE);
    // The process left more than the table: entries of the file system's caches, for one.
    return { ...found, megabytes: (before - (await group.kernelBytes())) / 1e6 };
  } finally {
    await topology.close();
    await group?.close();
  }
}
