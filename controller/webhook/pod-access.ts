import { isDenial } from '../../apis/compiled.ts';
import type { FailsafeEntry } from '../../apis/config.ts';
import { apiServerSlices, CONTROLLER_ACCOUNT, NODE_LOCAL_DNS } from '../../apis/control-plane.ts';
import type {
  ClusterNetworkPolicy,
  ClusterObjects,
  IPBlock,
  NetworkPolicyPort,
  Node,
  Pod,
  Rule,
} from '../../apis/objects.ts';
import { BASELINE_PRIORITY, comparePlace, type EvaluationPosition } from '../../apis/order.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import { namedPorts } from '../../apis/validate/service.ts';
import { BITS, type Cidr, covers, formatCidr, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { directPeers, type FamilyOf, nodeSelectors } from '../compile/address-set.ts';
import { placeOfPolicy } from '../compile/policy-rules.ts';
import { groupFamily, groupIndex } from '../index/name-index.ts';
import { allHold, canonicalRequirements } from '../index/selector.ts';
import { isSkippedByFailsafe, rulePath } from './risks.ts';

/** The objects that the warning depends on. */
export type PodAccessObjects = Pick<
  ClusterObjects,
  'policies' | 'groups' | 'tiers' | 'nodes' | 'pods' | 'services' | 'endpointSlices'
>;

const CONTROL_PLANE_LABEL = 'node-role.kubernetes.io/control-plane';
const API_PORT = 6443;
/**
 * The most networks of pods, and Nodes of the API server, that are checked; beyond them a warning
 * may be missing.
 */
const MOST_NETWORKS = 64;
const MOST_NODES = 16;

/** A policy's rules in order, and the data to evaluate them. */
interface EarlierPolicy {
  readonly rules: readonly Rule[];
  readonly isFor: (rule: Rule, node: Node) => boolean;
  readonly familyOf: FamilyOf;
  readonly isBaseline: boolean;
}

/** The Nodes' addresses, or one that every Node has, by which pods reach services on Nodes. */
interface Target {
  readonly nodes: readonly Node[];
  readonly protocol: 'TCP' | 'UDP';
  readonly ports: readonly number[];
  /** The effect of a rule that closes it to pods of this network. */
  readonly closed: (network: string) => string;
}

/**
 * Warns about rules of the policy that close the API server to pods which reach it by its ClusterIP
 * with their own addresses, or NodeLocal DNSCache: pods are not Nodes, and not on the failsafe
 * list. Checks the pod networks of Nodes (spec.podCIDRs), else the addresses of known pods; without
 * either there is no warning. A rule that allows pods by a selector or an interface group is
 * assumed to allow all pods, and a rule that denies such peers is assumed to be intended: so no
 * warning is false.
 */
export function podAccessWarnings(
  policy: ClusterNetworkPolicy,
  objects: PodAccessObjects,
  failsafe: readonly FailsafeEntry[],
): string[] {
  const { spec } = policy;
  if (!decides(policy) || !(spec.ingress ?? []).some(({ action }) => isDenial(action))) return [];
  const place = placeOfPolicy(policy, objects);
  if (place === null) return [];
  const networks = networkSources(objects).flatMap(networksOf).slice(0, MOST_NETWORKS);
  const groups = groupIndex(objects.groups);
  const own = toEarlierPolicy(policy, place, groups);
  let before: readonly EarlierPolicy[] | null = null;
  return [apiServers(objects), ...dnsCaches(objects)].flatMap((target) => {
    const found = new Map<Rule, Cidr>();
    for (const flow of flowsTo(target, networks, failsafe)) {
      const rule = decidingRule([own], flow);
      if (rule === null || !isDenial(rule.action) || found.has(rule)) continue;
      before ??= earlierPolicies(policy, place, objects, groups);
      if (decidingRule([...before, own], flow) === rule) found.set(rule, flow.network);
    }
    return (spec.ingress ?? []).flatMap((rule, index) => {
      const network = found.get(rule);
      return network === undefined
        ? []
        : [`${rulePath('ingress', index)}: ${target.closed(formatCidr(network))}`];
    });
  });
}

interface PodFlow {
  readonly node: Node;
  readonly protocol: Target['protocol'];
  readonly port: number;
  readonly network: Cidr;
  readonly failsafe: readonly FailsafeEntry[];
}

function* flowsTo(
  { nodes, protocol, ports }: Target,
  networks: readonly Cidr[],
  failsafe: readonly FailsafeEntry[],
): Iterable<PodFlow> {
  for (const node of nodes)
    for (const port of ports)
      for (const network of networks) yield { node, protocol, port, network, failsafe };
}

/**
 * The first rule that matches all of the network, or denies a part of it; null: none, or a Pass
 * without a later match.
 */
function decidingRule(policies: readonly EarlierPolicy[], flow: PodFlow): Rule | null {
  let hasPassed = false;
  for (const { rules, isFor, familyOf, isBaseline } of policies) {
    if (hasPassed && !isBaseline) continue;
    for (const rule of rules) {
      if (!matchesPort(rule, flow) || !matchesPods(rule, flow.network, familyOf)) continue;
      if (!isFor(rule, flow.node) || (isSkippedByFailsafe(rule) && isListed(flow))) continue;
      if (rule.action !== 'Pass') return rule;
      hasPassed = true;
      break;
    }
  }
  return null;
}

/** Whether its rules decide about traffic to the Node itself. */
function decides({ spec }: ClusterNetworkPolicy): boolean {
  return spec.mode !== 'Audit' && spec.traffic !== 'NodePort';
}

function earlierPolicies(
  policy: ClusterNetworkPolicy,
  place: EvaluationPosition,
  objects: PodAccessObjects,
  groups: ReturnType<typeof groupIndex>,
): EarlierPolicy[] {
  const identity = identityOf(policy);
  return objects.policies
    .flatMap((other) => {
      const at = decides(other) && identityOf(other) !== identity ? placeOfPolicy(other, objects) : null;
      return at === null || comparePlace(at, place) >= 0 ? [] : [{ other, at }];
    })
    .sort((a, b) => comparePlace(a.at, b.at))
    .map(({ other, at }) => toEarlierPolicy(other, at, groups));
}

function toEarlierPolicy(
  { spec, apiGroup }: ClusterNetworkPolicy,
  { tierPriority: tier }: EvaluationPosition,
  groups: ReturnType<typeof groupIndex>,
): EarlierPolicy {
  const familyOf: FamilyOf = (name) => groupFamily(groups, name, apiGroup);
  return {
    rules: spec.ingress ?? [],
    familyOf,
    isBaseline: tier === BASELINE_PRIORITY,
    isFor: (rule, node) =>
      nodeSelectors(spec.appliedTo?.length ? spec.appliedTo : (rule.appliedTo ?? []), familyOf).some(
        (selector) => allHold(canonicalRequirements(selector), node.labels),
      ),
  };
}

/** The Nodes of the API server's endpoints; by the usual label if there are no endpoints. */
function apiServers({ nodes, endpointSlices }: PodAccessObjects): Target {
  const slices = apiServerSlices(endpointSlices);
  const addresses = new Set(slices.flatMap((slice) => slice.addresses));
  const isOne = (node: Node): boolean =>
    slices.length === 0
      ? Object.hasOwn(node.labels, CONTROL_PLANE_LABEL)
      : node.addresses.some((address) => addresses.has(address));
  const named = slices.flatMap(({ ports }) =>
    ports.flatMap(({ protocol, port }) => (protocol === 'TCP' ? port : [])),
  );
  const ports = named.length === 0 ? [API_PORT] : [...new Set(named)].sort((a, b) => a - b);
  return {
    nodes: nodes.filter(isOne).slice(0, MOST_NODES),
    protocol: 'TCP',
    ports,
    closed: (network) =>
      `closes the API server (TCP ${ports.join(', ')}) to pods that reach it by its ClusterIP, those of ${network} ` +
      "for example, unless the CNI masquerades them; to keep it open allow it in a rule before this one, from the pods' networks",
  };
}

/** NodeLocal DNSCache, if its manifest's Services are there: it listens on every Node. */
function dnsCaches({ nodes, services }: PodAccessObjects): Target[] {
  const isThere = services.some(
    ({ namespace, name }) => namespace === NODE_LOCAL_DNS.namespace && NODE_LOCAL_DNS.names.includes(name),
  );
  if (!isThere) return [];
  const closed = (network: string): string =>
    `closes NodeLocal DNSCache (UDP 53) to the pods of each Node, those of ${network} for example; ` +
    "to keep it open allow UDP and TCP 53 in a rule before this one, from the pods' networks";
  return [{ nodes: nodes.slice(0, MOST_NODES), protocol: 'UDP', ports: [53], closed }];
}

/** The pods and slices that a warning needs beside all Nodes, with the same result: a few. */
export function podAccessObjects(
  objects: PodAccessObjects,
): Pick<PodAccessObjects, 'pods' | 'endpointSlices'> {
  const needed = new Set<Node | Pod>(networkSources(objects));
  return {
    pods: objects.pods.filter((pod) => needed.has(pod)),
    endpointSlices: apiServerSlices(objects.endpointSlices),
  };
}

/** The Nodes or pods, in order, whose networks count. */
function networkSources({ nodes, pods }: PodAccessObjects): (Node | Pod)[] {
  const ofNodes = firstWithNetworks(nodes);
  return ofNodes.length > 0 ? ofNodes : firstWithNetworks(pods);
}

function firstWithNetworks(objects: readonly (Node | Pod)[]): (Node | Pod)[] {
  const found: (Node | Pod)[] = [];
  let networks = 0;
  for (const object of objects) {
    const { length } = networksOf(object);
    if (length > 0) found.push(object);
    networks += length;
    if (networks >= MOST_NETWORKS) break;
  }
  return found;
}

function networksOf(object: Node | Pod): Cidr[] {
  if (object.kind === 'Node') return (object.podCIDRs ?? []).flatMap((text) => parseCidr(text)?.cidr ?? []);
  const { namespace, serviceAccount, addresses } = object;
  // These pods are on the failsafe list.
  if (namespace === CONTROLLER_ACCOUNT.namespace && serviceAccount === CONTROLLER_ACCOUNT.name) return [];
  return addresses.flatMap((text) => {
    const address = parseAddress(text);
    return address === null ? [] : { ...address, length: BITS[address.family] };
  });
}

function matchesPort(rule: Rule, flow: PodFlow): boolean {
  if (!rule.ports?.length && !rule.protocols?.length) return true;
  return namedPorts(rule).some((item) => hasPort(item, flow));
}

/** A port with a source port decides about some connections only, so it is ignored. */
function hasPort(
  { protocol = 'TCP', port, endPort = port, sourcePort }: NetworkPolicyPort,
  wanted: PodFlow,
): boolean {
  if (protocol !== wanted.protocol || sourcePort !== undefined) return false;
  return port === undefined || (port <= wanted.port && wanted.port <= (endPort ?? port));
}

function matchesPods(rule: Rule, network: Cidr, familyOf: FamilyOf): boolean {
  const { from = [] } = rule;
  if (from.length === 0) return true;
  const isDenied = isDenial(rule.action);
  return directPeers(from, familyOf).some((peer) => {
    if ('ipBlock' in peer) return isIn(peer.ipBlock, network, isDenied);
    return !isDenied && !('nodeSelector' in peer);
  });
}

/** Whether the block contains all of the network; with `partly`, at least a part of it. */
function isIn({ cidr, except = [] }: IPBlock, network: Cidr, partly: boolean): boolean {
  const block = parseCidr(cidr)?.cidr;
  const holes = except.flatMap((text) => parseCidr(text)?.cidr ?? []);
  if (block === undefined) return false;
  if (partly) {
    return (covers(block, network) || covers(network, block)) && !holes.some((hole) => covers(hole, network));
  }
  return covers(block, network) && !holes.some((hole) => covers(hole, network) || covers(network, hole));
}

/** Whether the flow is on the configured failsafe list, which may contain the pods' networks. */
function isListed({ protocol: wanted, port, network, failsafe }: PodFlow): boolean {
  return failsafe.some(({ protocol, ports: [first, last], peers }) => {
    if (protocol !== wanted.toLowerCase() || port < first || port > last) return false;
    if (typeof peers === 'string') return peers === 'any';
    return peers.some((cidr) => isIn({ cidr }, network, false));
  });
}
