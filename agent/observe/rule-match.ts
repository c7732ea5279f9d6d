import type { AddressSet, CompiledRule, NodeState, PortMatch, ServiceSet } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { Considered } from '../../apis/flow.ts';
import { PROTOCOL_NUMBERS } from '../../apis/protocols.ts';
import { type ResolvedPeer, resolvedPeers } from '../../apis/resolved-peers.ts';
import { parseAddress } from '../../lib/net/address.ts';
import { hasMember } from '../../lib/net/member-set.ts';
import { addressKey, type KnownFlow } from './known-flow.ts';

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
  if (flow.protocol !== PROTOCOL_NUMBERS[service.protocol]) return false;
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
      if (service.group === undefined) return true;
      return flow.dst !== undefined && addressKey(flow.dst) === addressKey(parseAddress(service.group));
    }
  }
}

function inRange(port: number | undefined, range: readonly [number, number] | undefined): boolean {
  return range === undefined || (port !== undefined && port >= range[0] && port <= range[1]);
}
