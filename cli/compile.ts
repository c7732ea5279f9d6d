import { rulesetText } from '../agent/render/nfttext.ts';
import { render } from '../agent/render/render.ts';
import type { CompiledRule, NodeState, Service } from '../apis/compiled.ts';
import { formatMembers } from '../apis/memberset.ts';
import { EXIT, type ExitStatus } from './exit.ts';
import { loadNode, type NodeOptions } from './load.ts';
import { json, print, table } from './output.ts';

type CompileOptions = NodeOptions & { readonly output: 'table' | 'json' | 'nft' };

export async function compileCommand(options: CompileOptions): Promise<ExitStatus> {
  const { state, config, invalid } = await loadNode(options);
  switch (options.output) {
    case 'json':
      await print(json(toJson(state)));
      break;
    case 'nft':
      await print(rulesetText(render(state, config)));
      break;
    case 'table':
      await print(toTable(state));
      break;
  }
  return invalid && options.strict ? EXIT.invalid : EXIT.done;
}

function toJson(state: NodeState): object {
  const used = new Set(state.rules.flatMap((rule) => rule.addressSets));
  const sets = [...state.addressSets.values()].filter(({ id }) => used.has(id));
  return {
    node: state.node,
    rules: state.rules.map(({ source, ...rule }) => ({ ...rule, ...source })),
    addressSets: Object.fromEntries(
      sets.map(({ id, description, members }) => [id, { description, members: formatMembers(members) }]),
    ),
  };
}

function toTable(state: NodeState): string {
  const rows = state.rules.map((rule, i) => [
    String(i + 1),
    rule.source.direction,
    `${rule.tier} ${rule.tierPriority}`,
    String(rule.priority),
    `${rule.source.policy}/${rule.source.rule}`,
    rule.action,
    peersText(rule, state),
    rule.services.length === 0 ? 'all traffic' : rule.services.map(serviceText).join(', '),
  ]);
  const header = ['#', 'direction', 'tier', 'priority', 'policy/rule', 'action', 'peers', 'services'];
  return rows.length === 0 ? `No rule applies to Node ${state.node}.\n` : table(header, rows);
}

function peersText({ addressSets: [id] }: CompiledRule, state: NodeState): string {
  if (id === undefined) return 'any';
  const words = state.addressSets.get(id)?.description ?? id;
  return words.length > 60 ? `${words.slice(0, 57)}...` : words;
}

export function serviceText(service: Service): string {
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
  }
}
