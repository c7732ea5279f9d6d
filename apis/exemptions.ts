import { BITS, parseAddress, parseCidr } from '../lib/net/address.ts';
import { NO_MEMBERS, toMemberSet } from '../lib/net/member-set.ts';
import { shortHash } from '../lib/sharing/hash.ts';
import { type AddressSet, type CompiledRule, isDenial, type NodeState, namesPorts } from './compiled.ts';
import type { Config, FailsafeEntry } from './config.ts';
import { apiServerPorts } from './control-plane.ts';
import type { Direction, EndpointSlice } from './objects.ts';
import { platformOf } from './platform.ts';

/** The decisions that come before all rules, as docs/semantics.md section 2 has it. */

/** Router and neighbour solicitations and advertisements (RFC 4861). */
export const NEIGHBOR_DISCOVERY: readonly number[] = [133, 134, 135, 136];
/** Queries, reports and dones (RFC 2710), reports of version 2 (RFC 3810). */
export const MULTICAST_LISTENER: readonly number[] = [130, 131, 132, 143];
/** The ports of DHCP (RFC 2131) and DHCPv6 (RFC 8415). */
export const DHCP = { 4: { client: 68, server: 67 }, 6: { client: 546, server: 547 } } as const;

/**
 * Destinations (CIDRs) of DHCP answers that count as such: no router forwards packets to them, so a
 * host of the same link sent them. An answer to the Node's own address is of a connection that the
 * Node began, where it asked for it.
 */
export const DHCP_ANSWERED_AT = { 4: '255.255.255.255/32', 6: 'fe80::/10' } as const;

/** The tunnel between a pod's node and an egress gateway: UDP, between addresses of Nodes. */
export const EGRESS_TUNNEL_PORT = 7790;
/** WireGuard's packets that carry the tunnel, where egress.encryption says so. */
export const EGRESS_WIREGUARD_PORT = 7792;

/** Whether spoofed packets are dropped on a node in this state: one that only audits drops none. */
export function dropsSpoofed(
  { rules }: Pick<NodeState, 'rules'>,
  config: Pick<Config, 'antiSpoofing'>,
): boolean {
  return config.antiSpoofing && rules.some(({ mode }) => mode === 'Enforce');
}

/**
 * Whether packets that leave by an interface of local pods skip the rule, where the exemption
 * localPods is on.
 */
export function sparesLocalPods({ action, source }: Pick<CompiledRule, 'action' | 'source'>): boolean {
  return source.direction === 'egress' && isDenial(action) && source.namesPods !== true;
}

/** Whether rules are asked about such packets; else all of them are accepted before. */
export function judgesLocalPods({ rules }: Pick<NodeState, 'rules'>): boolean {
  return rules.some(({ source }) => source.namesPods === true);
}

/**
 * Whether traffic of the failsafe list skips the rule: a Drop or Reject rule that names neither
 * ports nor protocols. That traffic goes to a second index, made without those rules.
 */
export function isSkippable(rule: CompiledRule): boolean {
  return isDenial(rule.action) && rule.services.length === 0 && !namesPorts(rule) && rule.traffic === 'Host';
}

/**
 * The list of the configuration, with an entry for each known port of the API server, for egress
 * the control plane as the agent reaches it, and what the node needs to carry pods.
 */
export function failsafeList(
  { failsafe, sparesPlatform }: Pick<Config, 'failsafe' | 'sparesPlatform'>,
  direction: Direction,
  state: Pick<NodeState, 'apiServerPorts' | 'controlPlane' | 'platform'>,
): FailsafeEntry[] {
  const { apiServerPorts, controlPlane = [] } = state;
  return [
    ...withPorts(failsafe[direction], apiServerPorts),
    ...(direction === 'egress' ? controlPlane : []),
    ...(sparesPlatform ? platformOf(state, direction) : []),
  ];
}

function withPorts(entries: readonly FailsafeEntry[], ports: readonly number[]): FailsafeEntry[] {
  return entries.flatMap((entry) => {
    if (!entry.apiServer) return entry;
    return [entry, ...ports.map((port): FailsafeEntry => ({ ...entry, ports: [port, port] }))];
  });
}

/** The lists of the configuration, with an entry for each port of the API server's endpoints. */
export function withApiServer(
  { ingress, egress }: Config['failsafe'],
  slices: readonly EndpointSlice[],
): Config['failsafe'] {
  const ports = apiServerPorts(slices);
  return { ingress: withPorts(ingress, ports), egress: withPorts(egress, ports) };
}

/** Stands for an AddressSet that the state doesn't have. */
const NOBODY: AddressSet = { id: '', description: '', dynamic: false, names: [], members: NO_MEMBERS };

/** The addresses of an entry; null: any address. */
export function failsafePeers(peers: FailsafeEntry['peers'], state: NodeState): AddressSet | null {
  if (peers === 'any') return null;
  if (peers === 'nodes') return state.addressSets.get(state.allNodes) ?? NOBODY;
  if (peers === 'controllers') return state.addressSets.get(state.controllers) ?? NOBODY;
  const blocks = peers.flatMap((text) => {
    const address = parseAddress(text);
    const cidr = parseCidr(text)?.cidr ?? (address && { ...address, length: BITS[address.family] });
    return cidr ? [{ cidr, except: [] }] : [];
  });
  const description = [...peers].sort().join('; ');
  return {
    id: shortHash(12, 'failsafe', description),
    description,
    dynamic: false,
    names: [],
    members: toMemberSet(blocks, []),
  };
}
