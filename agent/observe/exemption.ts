import type { NodeState } from '../../apis/compiled.ts';
import type { Config, Exemption } from '../../apis/config.ts';
import {
  DHCP,
  DHCP_ANSWERED_AT,
  dropsSpoofed,
  judgesLocalPods,
  MULTICAST_LISTENER,
  NEIGHBOR_DISCOVERY,
} from '../../apis/exemptions.ts';
import { failsafePeers } from '../../apis/failsafe.ts';
import { PROTOCOL_NUMBERS } from '../../apis/protocols.ts';
import { isCovered, parseCidr } from '../../lib/net/address.ts';
import { hasMember } from '../../lib/net/member-set.ts';
import { RULE_EXTENSION } from '../extension/rules.ts';
import { isIcmpv6, type KnownFlow } from './known-flow.ts';

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
