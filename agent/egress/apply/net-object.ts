import {
  type NetAddress,
  type NetLink,
  type NetNeighbour,
  type NetNexthop,
  type NetPeer,
  type NetRoute,
  type NetRule,
  type Netstate,
  OWN_NETWORK,
} from '../../../apis/egress/netstate.ts';
import { BITS } from '../../../lib/net/address.ts';

/** One object of a Netstate. */
export type NetObject =
  | { readonly kind: 'link'; readonly it: NetLink }
  | { readonly kind: 'address'; readonly it: NetAddress }
  | { readonly kind: 'neighbour'; readonly it: NetNeighbour }
  | { readonly kind: 'nexthop'; readonly it: NetNexthop }
  | { readonly kind: 'route'; readonly it: NetRoute }
  | { readonly kind: 'rule'; readonly it: NetRule };

/** All objects, in the order in which they can be made. */
export function netObjects(netstate: Netstate): NetObject[] {
  const { links, addresses, neighbours, nexthops, routes, rules } = netstate;
  // A group names its members, `goto` a rule behind it.
  const single = nexthops.filter((it) => !('group' in it));
  const groups = nexthops.filter((it) => 'group' in it);
  return [
    ...links.map((it) => ({ kind: 'link', it }) as const),
    ...addresses.map((it) => ({ kind: 'address', it }) as const),
    ...neighbours.map((it) => ({ kind: 'neighbour', it }) as const),
    ...[...single, ...groups].map((it) => ({ kind: 'nexthop', it }) as const),
    ...routes.map((it) => ({ kind: 'route', it }) as const),
    ...rules.toSorted((a, b) => b.priority - a.priority).map((it) => ({ kind: 'rule', it }) as const),
  ];
}

/** Whether the prefix is that of one address alone. */
export function isSingleAddress(address: string, prefixLength: number): boolean {
  return prefixLength === BITS[address.includes(':') ? 6 : 4];
}

/** Which object it is: two with the same key cannot be there at one time. */
export function netObjectKey(object: NetObject): string {
  switch (object.kind) {
    case 'link':
      return `link ${object.it.name}`;
    case 'address':
      return `address ${object.it.link} ${object.it.address}/${object.it.prefixLength}`;
    case 'neighbour':
      return `${object.it.kind} ${object.it.link} ${object.it.kind === 'fdb' ? object.it.mac : object.it.address}`;
    case 'nexthop':
      return `nexthop ${object.it.id}`;
    case 'route':
      return `route ${object.it.family} ${object.it.table} ${object.it.destination}`;
    case 'rule':
      // Rules are never replaced: each form of one is another rule.
      return ruleText(object.it);
  }
}

/** The command that makes the object. Objects with the same text are the same. */
export function objectText(object: NetObject): string {
  switch (object.kind) {
    case 'link':
      return linkText(object.it);
    case 'address': {
      const { address, prefixLength, link } = object.it;
      const v6 = address.includes(':') ? ' nodad preferred_lft 0' : '';
      return `ip addr add ${address}/${prefixLength} dev ${link}${isSingleAddress(address, prefixLength) ? ' noprefixroute' : ''}${v6}`;
    }
    case 'neighbour':
      return object.it.kind === 'fdb'
        ? `bridge fdb add ${object.it.mac} dev ${object.it.link} dst ${object.it.remote}`
        : `ip neigh add ${object.it.address} lladdr ${object.it.mac} dev ${object.it.link} nud permanent`;
    case 'nexthop': {
      const way =
        'group' in object.it
          ? `group ${object.it.group.join('/')}`
          : `via ${object.it.via} dev ${object.it.link}`;
      return `ip nexthop add id ${object.it.id} ${way} proto ${OWN_NETWORK.protocol}`;
    }
    case 'route': {
      const { family, table, destination, nexthop } = object.it;
      const to = destination.endsWith('/0') ? 'default' : destination;
      const way = nexthop === null ? `throw ${to}` : `${to} nhid ${nexthop}`;
      return `${ip(family)} route add ${way} table ${table} proto ${OWN_NETWORK.protocol}`;
    }
    case 'rule':
      return ruleText(object.it);
  }
}

function linkText(it: NetLink): string {
  if (it.kind === 'wireguard')
    return `ip link add ${it.name} mtu ${it.mtu} group ${it.group} up type wireguard`;
  const { name, mac, mtu, group, id, port, local } = it;
  const device = `ip link add ${name} address ${mac} mtu ${mtu} group ${group} up`;
  const checksum = local.includes(':') ? '' : ' noudpcsum';
  return `${device} type vxlan id ${id} dstport ${port} local ${local} nolearning${checksum}`;
}

function ruleText(it: NetRule): string {
  const start = (mark: string) => `${ip(it.family)} rule add pref ${it.priority}${mark}`;
  const end = 'protocol kernel';
  if (it.action === 'nop') return `${start('')} nop ${end}`;
  const mark = ` fwmark 0x${it.mark.toString(16)}/0x${it.mask.toString(16)}`;
  if (it.action === 'table') return `${start(mark)} lookup ${it.table} ${end}`;
  return `${start(it.invert ? ` not${mark}` : mark)} goto ${it.target} ${end}`;
}

function ip(family: 4 | 6): string {
  return family === 4 ? 'ip' : 'ip -6';
}

/**
 * The commands of ip(8), bridge(8) and sysctl(8) that make this network configuration, in order.
 */
export function netstateText(netstate: Netstate): string {
  const objects = netObjects(netstate);
  const isLink = ({ kind }: NetObject): boolean => kind === 'link';
  const lines = [
    ...objects.filter(isLink).map(objectText),
    ...peersText(netstate),
    ...netstate.sysctls.map(({ path, value }) => `sysctl -w ${path}=${value}`),
    ...objects.filter((it) => !isLink(it)).map(objectText),
  ];
  return lines.map((line) => `${line}\n`).join('');
}

/** The commands of wg(8) that make this; the agent alone has the private key. */
function peersText({ links, peers }: Pick<Netstate, 'links' | 'peers'>): string[] {
  return links.flatMap(({ kind, name }) =>
    kind === 'wireguard' ? [deviceText(name), ...peers.map(peerText)] : [],
  );
}

export function deviceText(link: string): string {
  return `wg set ${link} listen-port ${OWN_NETWORK.wireguard.port} private-key FILE`;
}

export function peerText({ link, key, endpoint, address }: NetPeer): string {
  const bits = BITS[address.includes(':') ? 6 : 4];
  const host = endpoint.includes(':') ? `[${endpoint}]` : endpoint;
  return `wg set ${link} peer ${key} endpoint ${host}:${OWN_NETWORK.wireguard.port} allowed-ips ${address}/${bits}`;
}
