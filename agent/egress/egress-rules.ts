import { type Config, DEFAULT_EGRESS_GROUP } from '../../apis/config.ts';
import { OWN_NETWORK } from '../../apis/egress/netstate.ts';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import { EGRESS_TUNNEL_PORT, EGRESS_WIREGUARD_PORT } from '../../apis/exemptions.ts';
import { PROTOCOL_NUMBERS } from '../../apis/flow.ts';
import { type Address, isCovered, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { hasMember } from '../../lib/net/member-set.ts';
import type { RuleExtension } from '../extension/extension.ts';
import { isIcmpv6, type KnownFlow } from '../observe/known-flow.ts';
import { ARP_TABLE, arpTableText, toArpTable } from './render/arp-table.ts';
import { egressIds } from './render/counted.ts';
import { STEER, TRANSIENT_BASES } from './render/frame.ts';
import { egressRenderer } from './render/render-egress.ts';
import { linkLocal } from './render/tunnel.ts';

/** Egress gateways in stage 5. */
export const EGRESS_RULES: RuleExtension = {
  renderer(config) {
    const render = egressRenderer(config);
    return ({ egress = null }) => render(egress);
  },
  tables({ egress = null }) {
    const arp = toArpTable(egress);
    return arp === null ? [] : [{ ...ARP_TABLE, text: arpTableText(arp) }];
  },
  countIds: ({ egress }) => (egress === undefined ? [] : egressIds(egress)),
  isExempt: (flow, config, { egress }) => egress !== undefined && isOfTunnel(flow, config, egress),
  // Where the gate is off, all of it goes.
  transientBases: (chains) => (chains.has(STEER) ? TRANSIENT_BASES : {}),
  links: [OWN_NETWORK.floating.link, ...Object.keys(OWN_NETWORK.links)],
};

/** Whether a flow is the tunnel's own: the rules of tunnelMatches, as `explain` evaluates them. */
function isOfTunnel(
  flow: KnownFlow,
  { interfaceGroups, egress: { encryption } }: Pick<Config, 'interfaceGroups' | 'egress'>,
  egress: NodeEgress,
): boolean {
  const { traffic, protocol, dstPort, peer, group } = flow;
  if (peer === undefined || traffic !== 'Host') return false;
  if (protocol === PROTOCOL_NUMBERS.udp) {
    const isEncrypted = encryption === 'WireGuard';
    const outer = isEncrypted ? EGRESS_WIREGUARD_PORT : EGRESS_TUNNEL_PORT;
    if (dstPort === outer) return hasMember(egress.nodes, peer);
    const isBetweenDevices = isEncrypted && group === OWN_NETWORK.wireguard.group;
    return isBetweenDevices && dstPort === EGRESS_TUNNEL_PORT && isCovered(WIREGUARD_NETWORK, peer);
  }
  const isInside = group !== undefined && group === (interfaceGroups.egress ?? DEFAULT_EGRESS_GROUP);
  return isInside && isIcmpv6(flow, ECHO) && isEnd(egress, peer);
}

const WIREGUARD_NETWORK = [parseCidr(`${OWN_NETWORK.wireguard.network}::/64`)?.cidr ?? []].flat();

/** Echo request and reply of ICMPv6. */
const ECHO: readonly number[] = [128, 129];

function isEnd({ peers }: NodeEgress, { family, value }: Address): boolean {
  return [...peers.values()].some(({ mac }) => {
    const end = parseAddress(linkLocal(mac));
    return end?.family === family && end.value === value;
  });
}
