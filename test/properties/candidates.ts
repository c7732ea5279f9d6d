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

function mayBePeer(rule: CompiledRule, packet: Packet, state: NodeState): boolean {
  const [peer] = rule.peers;
  if (rule.peers.length > 1 || peer?.kind !== 'addresses') return true;
  const { family } = packet;
  const value = packet.direction === 'ingress' ? packet.src : packet.dst;
  const set = state.addressSets.get(peer.set);
  return set === undefined || hasMember(set.members, { family, value });
}

function mayBeService({ services }: CompiledRule, { protocol, dstPort, original }: Packet): boolean {
  if (services.length === 0) return true;
  const port = (original === null ? dstPort : original.dstPort) ?? -1;
  return services.some((service) => {
    if (protocolNumber(service.protocol) !== protocol) return false;
    if (!('ports' in service) || service.ports === undefined) return true;
    const [first, last] = service.ports;
    return first <= port && port <= last;
  });
}
