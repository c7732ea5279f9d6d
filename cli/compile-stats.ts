import { DATAPLANES } from '../agent/dataplane/dataplanes.ts';
import { type IndexStats, indexStats, type PartStats } from '../agent/observe/index-stats.ts';
import type { NodeState } from '../apis/compiled.ts';
import type { Config } from '../apis/config.ts';
import { CommandError, EXIT } from '../lib/process/exit.ts';
import { json, table } from './output.ts';

/**
 * Output of `compile --stats`: the cost of the index of a Node's rules. Throws a CommandError if
 * the configuration has no index (dispatch: linear).
 */
export function statsText(state: NodeState, config: Config, output: string): string {
  if (config.dispatch === 'linear') {
    throw new CommandError(
      EXIT.usage,
      '--stats: there is no index, since the configuration says dispatch: linear; remove that line to see the statistics of an index',
    );
  }
  const { dataplane } = config;
  if (dataplane !== 'auto' && !DATAPLANES[dataplane].hasIndex) {
    process.stderr.write(
      `the configuration says dataplane: ${dataplane}; the statistics are of the index in nftables\n`,
    );
  }
  const stats = indexStats(state, config);
  return output === 'json' ? json(toJson(stats)) : toText(stats);
}

function toJson({ costliest, parts, ...stats }: IndexStats): object {
  return {
    ...stats,
    parts: parts.map((part) => ({ ...part, protocol: part.protocol ?? 'other' })),
    costliest: costliest.map(({ source, entries }) => ({ ...source, entries })),
  };
}

const HEADER = [
  'index',
  'protocol',
  'rules',
  'found',
  'tries mean',
  'worst',
  'look-ups',
  'maps',
  'elements',
  'entries',
  '× rules',
  'memory',
];

function toText({ node, parts, memory, costliest }: IndexStats): string {
  if (parts.length === 0) return `No rule applies to Node ${node}: there is no index.\n`;
  const total = memory.index + memory.rules;
  const rules = costliest.map(({ source, entries }) => [
    String(entries),
    source.direction,
    `${source.policy}/${source.rule}`,
  ]);
  return [
    table(HEADER, parts.map(toRow)),
    `\nkernel memory, estimated: ${bytes(total)}; the index ${bytes(memory.index)}, the rules and sets themselves ${bytes(memory.rules)}\n`,
    '\nrules with most entries in the index:\n',
    table(['entries', 'direction', 'policy/rule'], rules),
  ].join('');
}

function toRow(part: PartStats): string[] {
  return [
    part.index,
    part.protocol ?? 'other',
    String(part.rules),
    part.way,
    part.tries.mean === null ? '-' : part.tries.mean.toFixed(1),
    String(part.tries.worst),
    String(part.lookups),
    String(part.maps),
    String(part.elements),
    String(part.listEntries),
    part.replication.toFixed(1),
    bytes(part.memory),
  ];
}

const UNITS = ['B', 'kB', 'MB', 'GB'] as const;

function bytes(count: number): string {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log10(Math.max(1, count)) / 3));
  const value = count / 1000 ** power;
  return `${value.toFixed(power === 0 || value >= 100 ? 0 : 1)} ${UNITS[power]}`;
}
