import type { NodeState } from '../../apis/compiled.ts';
import type { Config, Exemption } from '../../apis/config.ts';
import { DEFAULT_EGRESS_GROUP } from '../../apis/egress/link-group.ts';
import { OWN_NETWORK } from '../../apis/egress/netstate.ts';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import {
  DHCP,
  DHCP_ANSWERED_AT,
  dropsSpoofed,
  EGRESS_TUNNEL_PORT,
  EGRESS_WIREGUARD_PORT,
  judgesLocalPods,
  MULTICAST_LISTENER,
  NEIGHBOR_DISCOVERY,
} from '../../apis/exemptions.ts';
import { failsafePeers } from '../../apis/failsafe.ts';
import { PROTOCOL_NUMBERS } from '../../apis/protocols.ts';
import { type Address, isCovered, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { hasMember } from '../../lib/net/member-set.ts';
import { linkLocal } from '../egress/render/tunnel.ts';
import type { KnownFlow } from './known-flow.ts';

/**
 * The exemption that accepts a flow before any policy; null if none does. Connections from a local
 * pod or from the Node itself to a NodePort are always exempt, whatever the configuration says:
 * NodePort policies are for connections from outside. Connections to local pods are exempt here
 * only if no rule is asked about them; else `isSpared` says which rules they skip.
 */
export function exemptionTest(state: NodeState, config: Config): (flow: KnownFlow) => Exemption | null {
  const egress = state.egress ?? null;
  const isJudged = judgesLocalPods(state);
  const names = (Object.keys(EXEMPT) as Exemption[]).filter(
    (name) => config.exemptions[name] && !(name === 'localPods' && isJudged),
  );
  return (flow) => {
    if (flow.traffic === 'NodePort') {
      if (isOfPods(flow, config)) return 'localPods';
      if (flow.srcIsOwn) return 'loopback';
    }
    return names.find((name) => EXEMPT[name](flow, config, egress)) ?? null;
  };
}

/** Whether a flow goes to a local pod, and the exemption is on: it skips rules that name no pod. */
export function isSpared(flow: KnownFlow, config: Config): boolean {
  return config.exemptions.localPods && EXEMPT.localPods(flow, config, null);
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

type IsExempt = (flow: KnownFlow, config: Config, egress: NodeEgress | null) => boolean;

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
  localPods: (flow, config) => flow.direction === 'egress' && isOfPods(flow, config),
  egressTunnel(flow, { interfaceGroups, egress: { encryption } }, egress) {
    const { traffic, protocol, dstPort, peer, group } = flow;
    if (egress === null || peer === undefined || traffic !== 'Host') return false;
    if (protocol === PROTOCOL_NUMBERS.udp) {
      const isEncrypted = encryption === 'WireGuard';
      const outer = isEncrypted ? EGRESS_WIREGUARD_PORT : EGRESS_TUNNEL_PORT;
      if (dstPort === outer) return hasMember(egress.nodes, peer);
      const isBetweenDevices = isEncrypted && group === OWN_NETWORK.wireguard.group;
      return isBetweenDevices && dstPort === EGRESS_TUNNEL_PORT && isCovered(WIREGUARD_NETWORK, peer);
    }
    const isInside = group !== undefined && group === (interfaceGroups.egress ?? DEFAULT_EGRESS_GROUP);
    return isInside && isIcmpv6(flow, ECHO) && isEnd(egress, peer);
  },
};

const ANSWERED_AT = Object.values(DHCP_ANSWERED_AT).flatMap((text) => parseCidr(text)?.cidr ?? []);

const WIREGUARD_NETWORK = [parseCidr(`${OWN_NETWORK.wireguard.network}::/64`)?.cidr ?? []].flat();

/** Echo request and reply of ICMPv6. */
const ECHO: readonly number[] = [128, 129];

function isEnd({ peers }: NodeEgress, { family, value }: Address): boolean {
  return [...peers.values()].some(({ mac }) => {
    const end = parseAddress(linkLocal(mac));
    return end?.family === family && end.value === value;
  });
}

function isToMany({ dst }: KnownFlow): boolean {
  return dst !== undefined && isCovered(TO_MANY, dst);
}

/** Multicast, and the broadcast address of every link. */
const TO_MANY = ['224.0.0.0/4', '255.255.255.255/32', 'ff00::/8'].flatMap(
  (text) => parseCidr(text)?.cidr ?? [],
);

function isOfPods({ group }: KnownFlow, { interfaceGroups }: Config): boolean {
  return group !== undefined && group === interfaceGroups.pods;
}

function isIcmpv6(flow: KnownFlow, types: readonly number[]): boolean {
  return (
    flow.protocol === PROTOCOL_NUMBERS.icmpv6 &&
    flow.family !== 4 &&
    flow.type !== undefined &&
    types.includes(flow.type)
  );
}
