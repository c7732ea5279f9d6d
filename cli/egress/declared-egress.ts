import { netstateText } from '../../agent/egress/apply/net-object.ts';
import { toNetstate } from '../../agent/egress/render/netstate.ts';
import { USUAL_MTU } from '../../agent/egress/render/tunnel.ts';
import type { NodeState } from '../../apis/compiled.ts';
import { type Config, DEFAULT_EGRESS_GROUP } from '../../apis/config.ts';
import type { EgressConsidered, EgressExplanation, EgressFlow } from '../../apis/egress/flow.ts';
import type { Netstate } from '../../apis/egress/netstate.ts';
import type {
  DestinationRange,
  EgressOutcome,
  EgressTake,
  NodeEgress,
} from '../../apis/egress/node-egress.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import type { EgressExplainer } from '../../controller/egress/decide.ts';
import { nodeEgressViewer } from '../../controller/egress/node-egress.ts';
import { egressPolicyText } from '../../controller/egress/order.ts';
import { type Family, familyOf, formatAddress, formatCidr } from '../../lib/net/address.ts';
import { type Interval, toCidrs } from '../../lib/net/interval.ts';
import { formatMembers } from '../../lib/net/member-set.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import { styled } from '../../lib/process/terminal.ts';
import { table } from '../output.ts';

/** The state with what its node does for the egress gateways of manifests. */
export function declaredEgress(state: NodeState, objects: ClusterObjects, { egress }: Config): NodeState {
  const own = nodeEgressViewer(egress, state.node)(objects);
  return own === null ? state : { ...state, egress: own };
}

/** Fields of a node's JSON; none where it does nothing for egress gateways. */
export function egressJson(state: NodeState, config: Config): object {
  if (state.egress === undefined) return {};
  return { egress: nodeEgressJson(state.egress), netstate: networkOf(state, config) };
}

/** The network configuration of a node as commands. */
export function networkText(state: NodeState, config: Config): string {
  const text = netstateText(networkOf(state, config));
  return text === '' ? `# Node ${state.node} needs no network configuration for egress gateways.\n` : text;
}

/** As on a node whose interface has the usual MTU. */
function networkOf({ egress }: NodeState, { interfaceGroups, egress: { encryption } }: Config): Netstate {
  const group = interfaceGroups.egress ?? DEFAULT_EGRESS_GROUP;
  return toNetstate(egress ?? null, { group, underlayMtu: USUAL_MTU, encrypts: encryption === 'WireGuard' });
}

/** Maps by key in order, ranges as text. */
export function nodeEgressJson(egress: NodeEgress): object {
  const { inside, nodes, floating, sources, subnets, classes, outcomes, arrivals, ...rest } = egress;
  const ranges = (list: readonly DestinationRange[], family: Family) =>
    list.map(({ range, outcome }) => ({ to: rangeText(family, range), outcome }));
  return {
    ...rest,
    inside: formatMembers(inside),
    nodes: formatMembers(nodes),
    floating: formatMembers(floating),
    sources: sortedObject(sources),
    subnets: subnets.map(({ family, range, class: id }) => ({ from: rangeText(family, range), class: id })),
    classes: sortedObject(classes, ({ ipv4, ipv6 }) => ({ ipv4: ranges(ipv4, 4), ipv6: ranges(ipv6, 6) })),
    outcomes: sortedObject(outcomes, ({ policy, audited, action }) => ({ policy, audited, action })),
    slots: [...rest.slots.values()],
    peers: [...rest.peers.values()],
    takes: sortedObject(rest.takes),
    arrivals: sortedObject(arrivals, ({ node, takes }, address) => ({
      node,
      takes: takes.map(({ range, take }) => ({ to: rangeText(familyOf(address), range), take })),
    })),
  };
}

function sortedObject<K extends string | number, V>(
  map: ReadonlyMap<K, V>,
  value: (value: V, key: string) => unknown = (one) => one,
): object {
  const entries = [...map].map(([key, one]) => [String(key), value(one, String(key))] as const);
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** A CIDR where one is the range, else its ends. */
function rangeText(family: Family, range: Interval): string {
  const [cidr, ...more] = toCidrs(family, range);
  if (cidr !== undefined && more.length === 0) return formatCidr(cidr);
  return [range.first, range.last].map((value) => formatAddress({ family, value })).join('-');
}

/** Tables of the node's sources by class, and of what it takes as a gateway. */
export function egressTables(node: string, egress: NodeEgress): string {
  const { tunnel, sources, subnets, classes, takes, owned, refused = [] } = egress;
  const byClass = Map.groupBy([...sources.keys()].sort(), (address) => sources.get(address) ?? '');
  for (const { family, range, class: id } of subnets)
    byClass.set(id, [...(byClass.get(id) ?? []), rangeText(family, range)]);
  const steered = [...classes.values()].flatMap(({ id, ipv4, ipv6 }) =>
    [...rows(egress, ipv4, 4), ...rows(egress, ipv6, 6)].map((row) => [short(byClass.get(id) ?? []), ...row]),
  );
  const unselected = byClass.get('')?.length ?? 0;
  const parts = [
    `Egress gateways on ${node}: tunnel address ${tunnel?.address ?? 'none'}, ${unselected} pod addresses that no policy selects\n`,
    steered.length === 0 ? '' : table(['sources', 'destinations', 'policy', 'action'], steered),
    takes.size === 0
      ? ''
      : table(['take', 'source NAT to', 'pods that come by the tunnel'], takeRows(egress)),
    owned.length === 0
      ? ''
      : `Owned: ${owned.flatMap(({ addresses, announce }) => addresses.map((address) => `${address} (${announce})`)).join(', ')}\n`,
    refused.length === 0
      ? ''
      : `No number of a slot or take is left for: ${refused.map(egressPolicyText).join(', ')}; their connections are dropped here\n`,
  ];
  return parts.filter((part) => part !== '').join('\n');
}

function rows(egress: NodeEgress, ranges: readonly DestinationRange[], family: Family): string[][] {
  const byOutcome = Map.groupBy(ranges, ({ outcome }) => outcome);
  return [...byOutcome].flatMap(([id, own]) => {
    const outcome = egress.outcomes.get(id);
    if (outcome === undefined) return [];
    const { policy, audited } = outcome;
    const names = [
      ...audited.map((one) => `${egressPolicyText(one)} (audit)`),
      ...(policy === null ? [] : [egressPolicyText(policy)]),
    ];
    const to = short(own.map(({ range }) => rangeText(family, range)));
    return [[to, names.join(', '), actionText(outcome.action, egress)]];
  });
}

function actionText(action: EgressOutcome['action'], { slots }: NodeEgress): string {
  switch (action.kind) {
    case 'pass':
      return 'not steered';
    case 'direct':
      return 'Direct';
    case 'drop':
      return `Drop: ${action.reason}`;
    case 'take':
      return `take ${action.take}, here`;
    case 'slots':
      return action.slots.map((number) => `slot ${number} to ${slots.get(number)?.node ?? '?'}`).join(' or ');
  }
}

function takeRows({ takes, arrivals }: NodeEgress): string[][] {
  const counts = new Map<number, number>();
  for (const arrival of arrivals.values()) {
    for (const take of new Set(arrival.takes.map((one) => one.take)))
      counts.set(take, (counts.get(take) ?? 0) + 1);
  }
  return [...takes].map(([number, take]) => [
    String(number),
    takeText(take),
    String(counts.get(number) ?? 0),
  ]);
}

export function takeText(take: EgressTake): string {
  if (take.kind === 'floating') return [...take.ipv4, ...take.ipv6].join(', ');
  return take.interface === null ? "the node's own address" : `the address of ${take.interface}`;
}

/** The first, and how many more there are. */
function short(list: readonly string[]): string {
  return list.length <= 2 ? list.join(', ') : `${list[0]} and ${list.length - 1} more`;
}

/** The answer to one flow, in both forms. */
export interface ExplainedFlow {
  readonly value: object;
  /** With what was considered. */
  readonly text: () => string;
  /** The verdict as one line. */
  readonly line: () => string;
}

export type EgressAnswerer = (flow: EgressFlow, where: string, considered: boolean) => ExplainedFlow;

/** Explains connections of pods by manifests. */
export async function egressAnswerer({
  objects,
  config,
}: {
  readonly objects: ClusterObjects;
  readonly config: Config;
}): Promise<EgressAnswerer> {
  const { compileEgress } = await import('../../controller/egress/compile-egress.ts');
  const decide = await import('../../controller/egress/decide.ts');
  const explainer = decide.egressExplainer(objects, compileEgress(objects, config.egress));
  return (flow, where, considered) => {
    const answer = atPlace(where, explainer, flow, considered);
    return { value: answer, line: () => egressVerdictText(answer), text: () => egressText(flow, answer) };
  };
}

function atPlace(
  where: string,
  explainer: EgressExplainer,
  flow: EgressFlow,
  considered: boolean,
): EgressExplanation {
  try {
    return explainer(flow, { considered });
  } catch (error) {
    throw new CommandError(EXIT.invalid, `${where}: ${(error as Error).message}`, { cause: error });
  }
}

function egressText(flow: EgressFlow, answer: EgressExplanation): string {
  const rows = (answer.considered ?? []).map(({ policy, stage, priority, action, mismatch, outcome }, i) => [
    String(i + 1),
    stage,
    String(priority),
    policy,
    action,
    mismatch === null ? OUTCOMES[outcome] : `no match: ${mismatch}`,
  ]);
  const policies =
    rows.length === 0 ? '' : `${table(['#', 'stage', 'priority', 'policy', 'action', 'outcome'], rows)}\n`;
  return `${flowText(flow)}\n\n${policies}${egressVerdictText(answer)}\n`;
}

const OUTCOMES: Readonly<Record<EgressConsidered['outcome'], string>> = {
  'no match': 'no match',
  audited: 'audited: matched, decides nothing',
  decided: 'decided',
};

function flowText({ pod, src, dst, protocol, srcPort, dstPort }: EgressFlow): string {
  const end = (text: string, port: number | undefined): string =>
    port === undefined ? text : `${text} port ${port}`;
  const from = pod === undefined ? (src ?? '') : `pod ${pod}`;
  return `egress gateways, ${protocol ?? 'any protocol'}: ${end(from, srcPort)} to ${end(dst, dstPort)}`;
}

const COLOURS = { Gateway: 'green', Direct: 'green', Drop: 'red' } as const;

/** The verdict as one line. */
function egressVerdictText(answer: EgressExplanation): string {
  const audited = (answer.audited ?? []).map(({ policy, action }) => `${policy} (${action})`);
  const tail = audited.length === 0 ? '' : `; audited: ${audited.join(', ')}`;
  return `${styled(COLOURS[answer.verdict], answer.verdict)}: ${reasonText(answer)}${tail}`;
}

function reasonText(answer: EgressExplanation): string {
  const { verdict, policy, gateway, reason } = answer;
  const by = `policy ${policy}`;
  const at = gateway === null ? '' : ` (gateway ${gateway})`;
  switch (reason) {
    case 'policy':
      return verdict === 'Gateway' ? `${by}, gateway ${gateway}, ${exitText(answer)}` : by;
    case 'inside':
      return 'the destination is inside the cluster';
    case 'host':
      return 'the source is a Node, or a pod with hostNetwork: never steered';
    case 'no-policy':
      return 'no policy matched';
    case 'unknown-pod':
      return "unknown-pod: the source is in a Node's pod network, and no running pod has it";
    case 'no-gateway':
      return `${by}: no-gateway: no gateway of that name, or none that the policy may use`;
    case 'not-ready':
      return `${by}: not-ready: no gateway node is ready, or the owner of the address is not${at}`;
    case 'no-family':
      return `${by}: no-family: the gateway or the policy has no address of the destination's family${at}`;
    case 'no-address':
      return `${by}: no-address: no address of the pools is left for the policy${at}`;
    case 'no-route':
      return `${by}: no-route${at}`;
  }
}

function exitText({ node, nodes = [], address, addresses = [] }: EgressExplanation): string {
  const by = nodes.length === 0 ? `node ${node}` : `one of the nodes ${nodes.join(', ')}`;
  if (addresses.length > 0) return `${by}, one of the addresses ${addresses.join(', ')}`;
  return `${by}, ${address === null ? 'address of its interface' : `address ${address}`}`;
}
