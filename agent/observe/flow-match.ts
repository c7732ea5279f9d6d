import type { AddressSet, CompiledRule, NodeState, PortMatch, ServiceSet } from '../../apis/compiled.ts';
import type { Config, Exemption } from '../../apis/config.ts';
import {
  DHCP,
  DHCP_ANSWERED_AT,
  dropsSpoofed,
  failsafePeers,
  judgesLocalPods,
  MULTICAST_LISTENER,
  NEIGHBOR_DISCOVERY,
} from '../../apis/exemptions.ts';
import { type Considered, ipProtocolNumber, PROTOCOL_NUMBERS } from '../../apis/flow.ts';
import { type ResolvedPeer, resolvedPeers } from '../../apis/resolved-peers.ts';
import { isCovered, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { hasMember } from '../../lib/net/member-set.ts';
import { RULE_EXTENSION } from '../extension/rules.ts';
import { addressKey, isIcmpv6, type KnownFlow } from './known-flow.ts';

type Mismatch = Considered['mismatch'];
/** Which AddressSets contain the peer of one flow, as far as they were asked. */
type InSet = Map<AddressSet, boolean>;
type PeerTest = (flow: KnownFlow, inSet: InSet) => Mismatch;

/** A rule with a test for each of its peers. */
export interface RuleMatch {
  readonly rule: CompiledRule;
  readonly peers: readonly PeerTest[];
}

/**
 * Looks up the sets and groups that the node's rules name. Throws an Error for a set that the state
 * does not have, and for a link group name that is not in the configuration (validation rejects
 * these earlier).
 */
export function ruleMatches(state: NodeState, config: Config): RuleMatch[] {
  const tuples = new Map([...state.serviceSets.values()].map((set) => [set, tuplesOf(set)]));
  return state.rules.map((rule) => {
    return { rule, peers: resolvedPeers(rule, state, config).map((peer) => peerTest(peer, tuples)) };
  });
}

function peerTest(peer: ResolvedPeer, tuples: ReadonlyMap<ServiceSet, ReadonlySet<string>>): PeerTest {
  switch (peer.kind) {
    case 'any':
      return () => null;
    case 'interfaces':
      return ({ group }) => (group !== undefined && peer.groups.includes(group) ? null : 'interface');
    case 'addresses':
      return (flow, inSet) => (isMember(peer.set, flow, inSet) ? null : 'address');
    case 'services':
      return (flow) => (tuples.get(peer.set)?.has(flowTuple(flow)) ? null : 'service');
  }
}

/**
 * The part of the rule that the flow does not match (of several peers, the last); null if the rule
 * matches.
 */
export function mismatchOf({ rule, peers }: RuleMatch, flow: KnownFlow, inSet: InSet): Mismatch {
  if (!matchesServices(rule.services, flow)) return 'service';
  let mismatch: Mismatch = 'address';
  for (const test of peers) {
    mismatch = test(flow, inSet);
    if (mismatch === null) return null;
  }
  return mismatch;
}

function isMember(set: AddressSet, { peer }: KnownFlow, inSet: InSet): boolean {
  if (peer === undefined) return false;
  let member = inSet.get(set);
  if (member === undefined) {
    member = hasMember(set.members, peer);
    inSet.set(set, member);
  }
  return member;
}

function tuplesOf({ members }: ServiceSet): ReadonlySet<string> {
  return new Set(
    members.map(({ address, protocol, port }) =>
      tuple(addressKey(parseAddress(address)), PROTOCOL_NUMBERS[protocol], port),
    ),
  );
}

/** The flow's tuple; '' (in no ServiceSet) if a part of it is unknown. */
function flowTuple({ dst, protocol, dstPort }: KnownFlow): string {
  if (dst === undefined || protocol === undefined || dstPort === undefined) return '';
  return tuple(addressKey(dst), protocol, dstPort);
}

function tuple(address: string, protocol: number, port: number): string {
  return `${address} ${protocol} ${port}`;
}

function matchesServices(services: readonly PortMatch[], flow: KnownFlow): boolean {
  if (services.length === 0) return true;
  for (const service of services) if (matchesService(service, flow)) return true;
  return false;
}

function matchesService(service: PortMatch, flow: KnownFlow): boolean {
  if (flow.protocol !== ipProtocolNumber(service.protocol)) return false;
  switch (service.protocol) {
    case 'tcp':
    case 'udp':
    case 'sctp':
      return inRange(flow.dstPort, service.ports) && inRange(flow.srcPort, service.sourcePorts);
    case 'icmp':
    case 'icmpv6': {
      if (service.type === undefined) return true;
      // A type is one of ICMP for IPv4 or of ICMPv6: nft's `icmp type` matches one family only.
      if (flow.family !== undefined && flow.family !== (service.protocol === 'icmp' ? 4 : 6)) return false;
      return flow.type === service.type && (service.code === undefined || flow.code === service.code);
    }
    case 'igmp': {
      if (service.type !== undefined && (flow.type !== service.type || flow.family === 6)) return false;
      return isToGroup(service, flow);
    }
    default:
      return isToGroup(service, flow);
  }
}

function isToGroup({ group }: { readonly group?: string }, { dst }: KnownFlow): boolean {
  return group === undefined || (dst !== undefined && addressKey(dst) === addressKey(parseAddress(group)));
}

function inRange(port: number | undefined, range: readonly [number, number] | undefined): boolean {
  return range === undefined || (port !== undefined && port >= range[0] && port <= range[1]);
}

/**
 * The exemption that accepts a flow before any policy; null if none does. Connections from a local
 * pod or from the Node itself to a NodePort are always exempt, whatever the configuration says:
 * NodePort policies are for connections from outside. Connections to local pods are exempt here
 * only if no rule is asked about them; else `isSpared` says which rules they skip.
 */
export function exemptionTest(state: NodeState, config: Config): (flow: KnownFlow) => Exemption | null {
  const isJudged = judgesLocalPods(state);
  const names = (Object.keys(EXEMPT) as Exemption[]).filter(
    (name) => config.exemptions[name] && !(name === 'localPods' && isJudged),
  );
  return (flow) => {
    if (flow.traffic === 'NodePort') {
      if (isOfPods(flow, config)) return 'localPods';
      if (flow.srcIsOwn) return 'loopback';
    }
    return names.find((name) => EXEMPT[name](flow, config, state)) ?? null;
  };
}

/** Whether a flow goes to a local pod, and the exemption is on: it skips rules that name no pod. */
export function isSpared(flow: KnownFlow, config: Config): boolean {
  return config.exemptions.localPods && isToLocalPod(flow, config);
}

/**
 * Whether a flow is dropped before the exemptions: it comes from a pod's interface with the address
 * of a Node. A flow that doesn't say its interface group is not.
 */
export function spoofedTest(state: NodeState, config: Config): (flow: KnownFlow) => boolean {
  if (!dropsSpoofed(state, config)) return () => false;
  const nodes = failsafePeers('nodes', state);
  return (flow) =>
    flow.direction === 'ingress' &&
    isOfPods(flow, config) &&
    (flow.srcIsOwn || (flow.peer !== undefined && nodes !== null && hasMember(nodes.members, flow.peer)));
}

type IsExempt = (flow: KnownFlow, config: Config, state: NodeState) => boolean;

const EXEMPT: Readonly<Record<Exemption, IsExempt>> = {
  // The Node receives its own copy of a packet that it sends to several.
  loopback: (flow) => flow.srcIsOwn && (flow.dstIsOwn || (flow.direction === 'ingress' && isToMany(flow))),
  neighborDiscovery: (flow) => isIcmpv6(flow, NEIGHBOR_DISCOVERY),
  multicastListener: (flow) => isIcmpv6(flow, MULTICAST_LISTENER),
  dhcpClient: (flow) => {
    const { direction, family, srcPort, dstPort, dst } = flow;
    if (flow.protocol !== PROTOCOL_NUMBERS.udp || family === undefined) return false;
    const { client, server } = DHCP[family];
    if (direction === 'egress') return srcPort === client && dstPort === server;
    const isAnswer = srcPort === server && dstPort === client && flow.traffic === 'Host';
    return isAnswer && dst !== undefined && isCovered(ANSWERED_AT, dst);
  },
  localPods: isToLocalPod,
  egressTunnel: (flow, config, state) => RULE_EXTENSION.isExempt(flow, config, state),
};

const ANSWERED_AT = Object.values(DHCP_ANSWERED_AT).flatMap((text) => parseCidr(text)?.cidr ?? []);

function isToMany({ dst }: KnownFlow): boolean {
  return dst !== undefined && isCovered(TO_MANY, dst);
}

/** Multicast, and the broadcast address of every link. */
const TO_MANY = ['224.0.0.0/4', '255.255.255.255/32', 'ff00::/8'].flatMap(
  (text) => parseCidr(text)?.cidr ?? [],
);

function isToLocalPod(flow: KnownFlow, config: Config): boolean {
  return flow.direction === 'egress' && isOfPods(flow, config);
}

function isOfPods({ group }: KnownFlow, { interfaceGroups }: Config): boolean {
  return group !== undefined && group === interfaceGroups.pods;
}

/** The rules that may match a flow, in evaluation order: at least those that decide about it. */
export type RuleLookup = (flow: KnownFlow, isProtected: boolean) => readonly RuleMatch[];

/** All rules of the flow's direction and traffic. */
export function everyRule(rules: readonly RuleMatch[]): RuleLookup {
  const lists = Map.groupBy(rules, ({ rule }) => ruleList(rule.source.direction, rule.traffic));
  return (flow) => lists.get(ruleList(flow.direction, flow.traffic)) ?? [];
}

/** A name of the list of rules that judge such flows. */
export function ruleList(direction: KnownFlow['direction'], traffic: KnownFlow['traffic']): string {
  return `${direction} ${traffic}`;
}
