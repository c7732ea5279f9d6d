import { EMPTY_STATE } from '../../agent/apply/plan/current-state.ts';
import { transaction, transactionText } from '../../agent/apply/plan/transaction.ts';
import { iptablesText } from '../../agent/dataplane/iptables/text.ts';
import { explain } from '../../agent/observe/explain.ts';
import { receive } from '../../agent/receive/receive.ts';
import { rulesetText } from '../../agent/render/nft-text.ts';
import { render } from '../../agent/render/render.ts';
import type { Chain, Ruleset } from '../../agent/render/ruleset.ts';
import {
  type CompiledRule,
  type NodeState,
  namedBy,
  namesPorts,
  type PortMatch,
} from '../../apis/compiled.ts';
import { findingText } from '../../apis/lint/finding.ts';
import { nameResolver } from '../../apis/names.ts';
import { snapshot } from '../../apis/wire.ts';
import { withDeclaredPods } from '../../cli/load.ts';
import { compile } from '../../controller/compile/compile.ts';
import { clusterLint } from '../../controller/difference/cluster-lint.ts';
import { nodeView } from '../../controller/publish/node-view.ts';
import { formatMembers } from '../../lib/net/member-set.ts';
import type { Expectation } from './case.ts';
import { changeText } from './change.ts';
import { egressAnswered } from './egress-flows.ts';
import { formatAnswer, parseFlowLine } from './flow-line.ts';
import type { Inputs } from './inputs.ts';
import { streamText } from './stream.ts';

/**
 * What a fence ought to say: the value of one stage, in the words of that stage.
 * @param history the inputs before each step, and now
 */
export async function outcome(expectation: Expectation, history: readonly Inputs[]): Promise<string> {
  const { output, node, parts, fence } = expectation;
  const inputs = history.at(-1);
  if (inputs === undefined) throw new Error('no inputs');
  if (output === 'problems') return lines(inputs.problems.map(problemText));
  if (output === 'objects')
    return lines(
      Object.values(inputs.objects)
        .flat()
        .map((one) => JSON.stringify(one)),
    );
  if (output === 'flows' && parts.includes('egress')) return egressAnswered(fence.text, inputs);
  if (output === 'lint') return lintText(inputs, node);
  const state = toState(inputs, node);
  const published = publishedState(inputs, node);
  switch (output) {
    case 'compiled':
      return compiledText(state);
    case 'wire':
      return lines([...snapshot(published)].map((message) => JSON.stringify(message)));
    case 'state':
      return stateText(receive(snapshot(published)));
    case 'nft':
      return rulesetText(selectParts(render(state, inputs.config), parts));
    case 'iptables':
      return iptablesParts(state, inputs, parts);
    case 'change':
      return await changeText(expectation, history);
    case 'stream':
      return streamText(expectation, history);
    case 'transaction':
      return transactionText(transaction(EMPTY_STATE, render(state, inputs.config)));
    case 'flows':
      return answered(fence.text, await withDeclaredPods(state, inputs.objects), inputs);
  }
}

/** Names resolved. */
export function toState(inputs: Inputs, node: string | null): NodeState {
  return nameResolver()(publishedState(inputs, node), inputs.names);
}

function publishedState({ objects, firstNode }: Inputs, node: string | null): NodeState {
  const compiled = compile(objects);
  const name = node ?? firstNode;
  if (!compiled.nodeAddresses.has(name)) throw new Error(`no manifest declares Node ${name}`);
  return nodeView(compiled, name);
}

/** One line for each finding about the rules of a Node, its flow below. */
function lintText({ objects, config, names, firstNode }: Inputs, node: string | null): string {
  const resolve = (state: NodeState): NodeState => nameResolver()(state, names);
  const findings = clusterLint(compile(objects), { config, node: node ?? firstNode, resolve });
  if (findings.length === 0) return 'nothing\n';
  return lines(
    findings.flatMap((finding) => {
      const { kind, policy, rule, flow } = finding;
      const line = `${kind} ${policy}/${rule}: ${findingText(finding)}`;
      return flow === null ? [line] : [line, `  ${JSON.stringify(flow)}`];
    }),
  );
}

function lines(list: readonly string[]): string {
  return list.map((line) => `${line}\n`).join('');
}

/** Without the line: it would change with every golden above it. */
function problemText({ severity, kind, name, path, message }: Inputs['problems'][number]): string {
  return `${severity}: ${[`${kind}/${name}`, path, message].filter((part) => part !== '').join(': ')}`;
}

/** One line for each rule in evaluation order, then one for each AddressSet and each ServiceSet. */
function compiledText({ rules, addressSets, serviceSets }: NodeState): string {
  const used = new Set(namedBy(rules).addressSets);
  return lines([
    ...rules.map(ruleText),
    ...[...addressSets.values()]
      .filter(({ id }) => used.has(id))
      .map(
        ({ id, description, members }) => `${id} = ${description} = { ${formatMembers(members).join(', ')} }`,
      ),
    ...[...serviceSets.values()].map(({ id, description, members }) => {
      const tuples = members.map(({ address, protocol, port }) => `${address} ${protocol} ${port}`);
      return `${id} = ${description} = { ${tuples.join(', ')} }`;
    }),
  ]);
}

function ruleText(rule: CompiledRule): string {
  const { source, tier, tierPriority, priority, action, mode, traffic, log } = rule;
  const { addressSets, interfaceGroups, serviceSets } = namedBy([rule]);
  const groups = interfaceGroups.map((group) => `interface group ${group}`);
  const peers = [...addressSets, ...groups, ...serviceSets];
  return [
    `${source.direction}[${source.ruleIndex}]`,
    ...(traffic === 'Host' ? [] : [traffic]),
    `${tier} ${tierPriority}, ${priority}:`,
    `${source.policy}/${source.rule}`,
    action,
    ...(mode === 'Enforce' ? [] : ['(audit)']),
    servicesText(rule),
    source.direction === 'ingress' ? 'from' : 'to',
    peers.length === 0 ? 'any' : peers.join(' or '),
    ...(log === null ? [] : [`recorded${log.label === '' ? '' : ` as ${log.label}`}`]),
  ].join(' ');
}

function servicesText(rule: CompiledRule): string {
  if (namesPorts(rule)) return 'ports of the Services';
  return rule.services.length === 0 ? 'all traffic' : rule.services.map(serviceText).join(', ');
}

function serviceText(service: PortMatch): string {
  const words: (string | number)[] = [service.protocol];
  if ('ports' in service && service.ports !== undefined) words.push(rangeText(service.ports));
  if ('sourcePorts' in service && service.sourcePorts !== undefined)
    words.push('from port', rangeText(service.sourcePorts));
  if ('type' in service && service.type !== undefined) words.push('type', service.type);
  if ('code' in service && service.code !== undefined) words.push('code', service.code);
  if ('group' in service && service.group !== undefined) words.push('to', service.group);
  return words.join(' ');
}

function rangeText([first, last]: readonly [number, number]): string {
  return first === last ? `${first}` : `${first}-${last}`;
}

function stateText(state: NodeState): string {
  const all = state.addressSets.get(state.allNodes);
  return lines([
    `node ${state.node} = { ${state.nodeAddresses.join(', ')} }`,
    `all nodes = ${state.allNodes} = { ${all === undefined ? '' : formatMembers(all.members).join(', ')} }`,
  ]).concat(compiledText(state));
}

/** The parts for the commands ipset, iptables and ip6tables; all of them where none is named. */
function iptablesParts(state: NodeState, { config }: Inputs, parts: readonly string[]): string {
  const commands = { sets: 'ipset', v4: 'iptables-restore', v6: 'ip6tables-restore' };
  const wanted = Object.entries(commands).filter(([part]) => parts.length === 0 || parts.includes(part));
  return iptablesText
    .ruleset(state, config)
    .split(/^(?=# ip)/m)
    .filter((text) => wanted.some(([, command]) => text.startsWith(`# ${command} `)))
    .join('');
}

/** Parts of a table; all of it where none is named. */
function selectParts(ruleset: Ruleset, parts: readonly string[]): Ruleset {
  if (parts.length === 0) return ruleset;
  const chains = [...ruleset.chains].filter(([, chain]) => parts.includes(partOf(chain)));
  return {
    chains: new Map(chains),
    sets: parts.includes('sets') ? ruleset.sets : new Map(),
    maps: parts.includes('index') ? ruleset.maps : new Map(),
  };
}

function partOf({ name, base, source }: Chain): string {
  if (base !== null) return 'base';
  if (source !== null) return 'rules';
  return name === 'refuse' ? 'refuse' : 'index';
}

/** The flows as they are written, each with its answer; comments and empty lines stay. */
function answered(text: string, state: NodeState, { config }: Inputs): string {
  const explainer = explain(state, config);
  return text
    .replace(/\n$/, '')
    .split('\n')
    .map((line) => {
      if (line.trim() === '' || line.startsWith('#')) return `${line}\n`;
      const { flow, words } = parseFlowLine(line);
      return `${words}${formatAnswer(explainer(flow))}\n`;
    })
    .join('');
}
