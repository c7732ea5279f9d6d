import type { RouteObject } from 'nftables-napi';
import { OWN_NETWORK } from '../../../apis/egress/netstate.ts';
import { BITS, parseAddress } from '../../../lib/net/address.ts';
import { packAddress } from '../../../lib/net/member-set.ts';
import { METRIC, ROUTE_TYPE, RULE_PROTOCOL } from './kernel-object.ts';
import { isSingleAddress, type NetObject } from './net-object.ts';

const NONE = new Uint8Array(0);

/** The object as the kernel takes it. `links` has the indexes of the links it is on. */
export function toKernelRouteObject(object: NetObject, links: ReadonlyMap<string, number>): RouteObject {
  const { protocol } = OWN_NETWORK;
  const indexOf = (name: string): number => links.get(name) ?? 0;
  switch (object.kind) {
    case 'link':
      return { kind: 'link', link: toLink(object.it, indexOf(object.it.name)) };
    case 'address': {
      const { link, address, prefixLength } = object.it;
      const isV6 = address.includes(':');
      const flags = { noPrefixRoute: isSingleAddress(address, prefixLength), noDad: isV6, deprecated: isV6 };
      const it = {
        link: indexOf(link),
        address: bytesOf(address),
        prefixLength,
        protocol,
        metric: 0,
        ...flags,
      };
      return { kind: 'address', address: it };
    }
    case 'neighbour': {
      const { kind, link, mac } = object.it;
      const address = bytesOf(object.it.kind === 'fdb' ? object.it.remote : object.it.address);
      const it = { kind, link: indexOf(link), address, mac: macBytes(mac), isPermanent: true };
      return { kind: 'neighbour', neighbour: it };
    }
    case 'nexthop': {
      const { id } = object.it;
      const way =
        'group' in object.it
          ? { link: 0, via: NONE, group: object.it.group.map((member) => ({ id: member, weight: 1 })) }
          : { link: indexOf(object.it.link), via: bytesOf(object.it.via), group: [] };
      return { kind: 'nexthop', nexthop: { id, protocol, ...way } };
    }
    case 'route': {
      const { family, table, destination, nexthop } = object.it;
      const [network = '', length = BITS[family]] = destination.split('/');
      const to = { destination: bytesOf(network), prefixLength: Number(length) };
      const way =
        nexthop === null ? { nexthop: 0, type: ROUTE_TYPE.throw } : { nexthop, type: ROUTE_TYPE.unicast };
      const route = { family, table, protocol, metric: METRIC[family], ...way, ...to };
      return { kind: 'route', route };
    }
    case 'rule': {
      const { family, priority, action } = object.it;
      const nothing = { table: 0, target: 0, mark: 0, mask: 0, invert: false, hasMore: false };
      const rule = { ...nothing, ...object.it, family, priority, action, protocol: RULE_PROTOCOL };
      return { kind: 'rule', rule };
    }
  }
}

/** Which link the object must be on before it can be made; null: on none. */
export function linkOf(object: NetObject): string | null {
  switch (object.kind) {
    case 'address':
    case 'neighbour':
      return object.it.link;
    case 'nexthop':
      return 'link' in object.it ? object.it.link : null;
    default:
      return null;
  }
}

function toLink(it: Extract<NetObject, { kind: 'link' }>['it'], index: number) {
  const { name, kind, group } = it;
  const any = { index, name, kind, group, isUp: true };
  if (it.kind === 'wireguard') return { ...any, mtu: it.mtu, mac: NONE, vxlan: null };
  const { mac, mtu, id, port, local } = it;
  // The kernel has another switch for outer IPv6, where checksums are on by default.
  const checksum = local.includes(':');
  const vxlan = { id, port, local: bytesOf(local), remote: NONE, learning: false, checksum };
  return { ...any, mtu, mac: macBytes(mac), vxlan };
}

function bytesOf(text: string): Uint8Array {
  const address = parseAddress(text);
  return address === null ? NONE : packAddress(address);
}

function macBytes(text: string): Uint8Array {
  return Uint8Array.from(text.split(':'), (byte) => Number.parseInt(byte, 16));
}
