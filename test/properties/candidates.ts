import { trafficOf } from '../../agent/render/topology.ts';
import type { CompiledRule, NodeState, RuleSource } from '../../apis/compiled.ts';
import { hasMember } from '../../lib/net/member-set.ts';
import { protocolNumber } from '../tracer/match.ts';
import type { Packet } from '../tracer/packet.ts';

/**
 * How many rules an index by protocol, destination port and address can't spare a packet: those
 * that only something else tells apart (source ports, link groups, ICMP types), those that match
 * it, up to the one that decides. `decided` null: none does.
 */
export function candidates(state: NodeState, packet: Packet, decided: RuleSource | null): number {
  const traffic = packet.original !== null ? 'nodeport' : packet.direction;
  const own = state.rules.filter((rule) => trafficOf(rule) === traffic);
  const end = own.findIndex(({ source }) => source === decided);
  const upTo = end < 0 ? own : own.slice(0, end + 1);
  return upTo.filter((rule) => mayBePeer(rule, packet, state) && mayBeService(rule, packet)).length;
}

function mayBePeer(
  { addressSets: [id], interfaceGroups, serviceSets: [services] }: CompiledRule,
  packet: Packet,
  state: NodeState,
): boolean {
  const { family } = packet;
  const value = packet.direction === 'ingress' ? packet.src : packet.dst;
  if (interfaceGroups.length > 0 || services !== undefined) return true;
  const set = id === undefined ? undefined : state.addressSets.get(id);
  return set === undefined || hasMember(set.members, { family, value });
}

function mayBeService(
  { services, serviceSets }: CompiledRule,
  { protocol, dstPort, original }: Packet,
): boolean {
  if (serviceSets.length > 0 || services.length === 0) return true;
  const port = (original === null ? dstPort : original.dstPort) ?? -1;
  return services.some((service) => {
    if (protocolNumber(service.protocol) !== protocol) return false;
    if (!('ports' in service) || service.ports === undefined) return true;
    const [first, last] = service.ports;
    return first <= port && port <= last;
  });
}
