import type { AddressSet, CompiledRule, NodeState, Service, ServiceSet } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { Considered } from '../../apis/flow.ts';
import { parseAddress } from '../../lib/net/address.ts';
import { hasMember } from '../../lib/net/member-set.ts';
import { addressKey, groupNumber, type KnownFlow, PROTOCOL_NUMBERS } from './known-flow.ts';

/** A rule with the sets and groups that it names. */
export interface RuleMatch {
  readonly rule: CompiledRule;
  /** Null if the rule names no AddressSet. */
  readonly addresses: AddressSet | null;
  /** Numbers of link groups; null if the rule names none. */
  readonly groups: readonly number[] | null;
  /** The ServiceSet's members as `tuple` formats them; null if the rule names no ServiceSet. */
  readonly tuples: ReadonlySet<string> | null;
}

/**
 * Looks up the sets and groups that the node's rules name. Throws an Error for a set that the state
 * does not have, and for a link group name that is not in the configuration (validation rejects
 * these earlier).
 */
export function ruleMatches({ rules, addressSets, serviceSets }: NodeState, config: Config): RuleMatch[] {
  const tuples = new Map([...serviceSets].map(([id, set]) => [id, tuplesOf(set)]));
  return rules.map((rule) => {
    const [addressSet] = rule.addressSets;
    const [serviceSet] = rule.serviceSets;
    return {
      rule,
      addresses: addressSet === undefined ? null : held(addressSets, addressSet),
      groups: rule.interfaceGroups.length === 0 ? null : groupNumbers(rule, config),
      tuples: serviceSet === undefined ? null : held(tuples, serviceSet),
    };
  });
}

function held<T>(sets: ReadonlyMap<string, T>, id: string): T {
  const set = sets.get(id);
  if (set === undefined) throw new Error(`the node's state refers to set ${id} but does not contain it`);
  return set;
}

function groupNumbers({ interfaceGroups, source }: CompiledRule, config: Config): number[] {
  return interfaceGroups.map((group) => {
    const number = groupNumber(group, config);
    if (number === undefined) {
      const known = Object.keys(config.interfaceGroups).join(', ');
      const where = `ClusterNetworkPolicy/${source.policy}: rule ${source.rule}`;
      throw new Error(`${where}: no interface group ${JSON.stringify(group)}; known: ${known}`);
    }
    return number;
  });
}

/**
 * The part of the rule that the flow does not match; null if the rule matches. `inSet` caches, for
 * this flow, which AddressSets contain its peer.
 */
export function mismatchOf(
  match: RuleMatch,
  flow: KnownFlow,
  inSet: Map<AddressSet, boolean>,
): Considered['mismatch'] {
  if (!matchesServices(match.rule.services, flow)) return 'service';
  if (match.tuples !== null && !match.tuples.has(flowTuple(flow))) return 'service';
  const { addresses, groups } = match;
  if (groups !== null && flow.group !== undefined && groups.includes(flow.group)) return null;
  if (addresses === null) return groups === null ? null : 'interface';
  return isMember(addresses, flow, inSet) ? null : 'address';
}

function isMember(set: AddressSet, { peer }: KnownFlow, inSet: Map<AddressSet, boolean>): boolean {
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

function matchesServices(services: readonly Service[], flow: KnownFlow): boolean {
  if (services.length === 0) return true;
  for (const service of services) if (matchesService(service, flow)) return true;
  return false;
}

function matchesService(service: Service, flow: KnownFlow): boolean {
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
