import { DATAPLANES } from '../agent/dataplane/dataplanes.ts';
import { type IndexStats, indexStats, type PartStats } from '../agent/observe/index-stats.ts';
import {
  type CompiledRule,
  type NodeState,
  namedBy,
  namesPorts,
  type PortMatch,
  type RulePeer,
} from '../apis/compiled.ts';
import type { Config } from '../apis/config.ts';
import { ipProtocolName, ipProtocolText } from '../apis/ip-protocols.ts';
import { toWrittenRule } from '../apis/wire.ts';
import { formatMembers } from '../lib/net/member-set.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { egressJson, egressTables, networkText } from './egress/declared-egress.ts';
import { loadResolvedNode, type NodeOptions } from './load.ts';
import { json, print, table } from './output.ts';

type CompileOptions = NodeOptions & {
  /** table, json, netstate, or the name of a dataplane's text. */
  readonly output: string;
  readonly stats: boolean;
};

export async function compileCommand(options: CompileOptions): Promise<ExitStatus> {
  const { stats, output } = options;
  const dataplane = Object.values(DATAPLANES).find((kind) => kind.output === output);
  if (stats && (dataplane !== undefined || output === 'netstate')) {
    throw new CommandError(EXIT.usage, `--stats: not with -o ${output}; use -o table or -o json`);
  }
  const { state, config, invalid } = await loadResolvedNode(options);
  if (stats) await print(statsText(state, config, output));
  else if (dataplane !== undefined) await print((await dataplane.text()).ruleset(state, config));
  else if (output === 'netstate') await print(networkText(state, config));
  else await print(output === 'json' ? json(toJson(state, config)) : toTable(state));
  return invalid && options.strict ? EXIT.invalid : EXIT.done;
}

function toJson(state: NodeState, config: Config): object {
  const used = new Set(namedBy(state.rules).addressSets);
  const sets = [...state.addressSets.values()].filter(({ id }) => used.has(id));
  return {
    node: state.node,
    rules: state.rules.map(toWrittenRule).map(({ source, ...rule }) => ({ ...rule, ...source })),
    addressSets: Object.fromEntries(
      sets.map(({ id, description, names, members }) => [
        id,
        { description, ...(names.length === 0 ? {} : { names }), members: formatMembers(members) },
      ]),
    ),
    serviceSets: Object.fromEntries(
      [...state.serviceSets.values()].map(({ id, description, members }) => [id, { description, members }]),
    ),
    ...egressJson(state, config),
  };
}

function toTable(state: NodeState): string {
  const rows = state.rules.map((rule, i) => [
    String(i + 1),
    rule.traffic === 'Host' ? rule.source.direction : `${rule.source.direction} ${rule.traffic}`,
    `${rule.tier} ${rule.tierPriority}`,
    String(rule.priority),
    `${rule.source.policy}/${rule.source.rule}`,
    actionText(rule),
    peersText(rule, state),
    servicesText(rule),
  ]);
  const header = ['#', 'direction', 'tier', 'priority', 'policy/rule', 'action', 'peers', 'services'];
  const rules = rows.length === 0 ? `No rule applies to Node ${state.node}.\n` : table(header, rows);
  return state.egress === undefined ? rules : `${rules}\n${egressTables(state.node, state.egress)}`;
}

/** The action; marked if the policy is in mode Audit and only records it. */
function actionText({ action, mode }: Pick<CompiledRule, 'action' | 'mode'>): string {
  return mode === 'Audit' ? `${action} (audit)` : action;
}

function peersText(rule: CompiledRule, state: NodeState): string {
  const words = rule.peers.map((peer) => peerText(peer, state)).join('; ');
  return words.length > 60 ? `${words.slice(0, 57)}...` : words;
}

function peerText(peer: RulePeer, { addressSets, serviceSets }: NodeState): string {
  switch (peer.kind) {
    case 'any':
      return 'any';
    case 'interfaces':
      return peer.groups.map((group) => `interface group ${group}`).join('; ');
    case 'addresses':
      return addressSets.get(peer.set)?.description ?? peer.set;
    case 'services':
      return `Services ${serviceSets.get(peer.set)?.description ?? peer.set}`;
  }
}

function servicesText(rule: CompiledRule): string {
  if (namesPorts(rule)) return 'ports of the Services';
  return rule.services.length === 0 ? 'all traffic' : rule.services.map(serviceText).join(', ');
}

function serviceText(service: PortMatch): string {
  const range = ([first, last]: readonly [number, number]): string =>
    first === last ? `${first}` : `${first}-${last}`;
  switch (service.protocol) {
    case 'tcp':
    case 'udp':
    case 'sctp':
      return [
        service.protocol.toUpperCase(),
        ...(service.ports === undefined ? [] : [range(service.ports)]),
        ...(service.sourcePorts === undefined ? [] : [`from ${range(service.sourcePorts)}`]),
      ].join(' ');
    case 'icmp':
    case 'icmpv6':
      return [service.protocol, service.type ?? [], service.code === undefined ? [] : `code ${service.code}`]
        .flat()
        .join(' ');
    case 'igmp':
      return ['igmp', service.type ?? [], service.group === undefined ? [] : `to ${service.group}`]
        .flat()
        .join(' ');
    default:
      return `${ipProtocolText(service.protocol)}${service.group === undefined ? '' : ` to ${service.group}`}`;
  }
}

/**
 * Output of `compile --stats`: the cost of the index of a Node's rules. Throws a CommandError if
 * the configuration has no index (dispatch: linear).
 */
function statsText(state: NodeState, config: Config, output: string): string {
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
  return output === 'json' ? json(statsJson(stats)) : tableText(stats);
}

function statsJson({ costliest, parts, ...stats }: IndexStats): object {
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

function tableText({ node, parts, memory, costliest }: IndexStats): string {
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
    part.protocol === null ? 'other' : ipProtocolName(part.protocol),
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
