/** Tells which objects of the kernel are nodewall's. */

import type {
  NftError,
  Route,
  RouteAddress,
  RouteLink,
  RouteNeighbour,
  RouteNexthop,
  RouteObject,
  RouteRule,
} from 'nftables-napi';
import { OWN_NETWORK } from '../../../apis/egress/netstate.ts';
import { formatAddress, formatMac } from '../../../lib/net/address.ts';
import { unpackAddress } from '../../../lib/net/member-set.ts';
import { isSingleAddress, type NetObject, netObjectKey, objectText } from './net-object.ts';

/** An object of the kernel that is nodewall's, or has a name or number that is. */
export interface KernelObject {
  readonly key: string;
  /** The command that makes it, as of a NetObject, and what else there is to it. */
  readonly text: string;
  readonly isOurs: boolean;
  readonly raw: RouteObject;
}

/** RTPROT_KERNEL: systemd-networkd removes rules of other protocols that it does not know. */
export const RULE_PROTOCOL = 2;
/** The kernel's metric of routes that name none. */
export const METRIC = { 4: 0, 6: 1024 } as const;
/** RTN_UNICAST, RTN_THROW. */
export const ROUTE_TYPE = { unicast: 1, throw: 9 } as const;

const { links: LINKS, protocol: PROTOCOL, tables: TABLES, nexthops: NEXTHOPS, rules: RULES } = OWN_NETWORK;

/** Names of links, by index. */
export type LinkNames = ReadonlyMap<number, string>;

export function isOwnLinkName(name: string): name is keyof typeof LINKS {
  return Object.hasOwn(LINKS, name);
}

/** Null: the object has nothing to do with nodewall. */
export function toKernelObject(raw: RouteObject, names: LinkNames): KernelObject | null {
  switch (raw.kind) {
    case 'link':
      return fromLink(raw.link, raw);
    case 'address':
      return fromAddress(raw.address, names, raw);
    case 'neighbour':
      return fromNeighbour(raw.neighbour, names, raw);
    case 'nexthop':
      return fromNexthop(raw.nexthop, names, raw);
    case 'route':
      return fromRoute(raw.route, raw);
    case 'rule':
      return fromRule(raw.rule, raw);
  }
}

/** `odd` is what the object has that ours do not. */
function made(object: NetObject, raw: RouteObject, isOurs: boolean, odd: readonly string[]): KernelObject {
  return { key: netObjectKey(object), text: [objectText(object), ...odd].join(' '), isOurs, raw };
}

function fromLink(link: RouteLink, raw: RouteObject): KernelObject | null {
  const { name, kind, group, mtu, mac, isUp, vxlan } = link;
  if (!isOwnLinkName(name)) return null;
  const down = isUp ? [] : ['down'];
  if (kind === LINKS[name] && kind === 'wireguard')
    return made({ kind: 'link', it: { kind, name, group, mtu } }, raw, true, down);
  const isOurs =
    kind === LINKS[name] && vxlan?.id === OWN_NETWORK.vxlan.id && vxlan.port === OWN_NETWORK.vxlan.port;
  if (vxlan === null || !isOurs) {
    return { key: `link ${name}`, text: `ip link add ${name} type ${kind ?? 'none'}`, isOurs: false, raw };
  }
  const local = addressText(vxlan.local);
  const odd = [
    ...down,
    ...(vxlan.learning ? ['learning'] : []),
    ...(vxlan.checksum === local.includes(':') ? [] : ['other checksums']),
    ...(vxlan.remote.length === 0 ? [] : [`remote ${addressText(vxlan.remote)}`]),
  ];
  const { id, port } = vxlan;
  const it = { kind: 'vxlan', name, mac: formatMac(mac), group, mtu, id, port, local } as const;
  return made({ kind: 'link', it }, raw, true, odd);
}

/** All addresses on our links are ours, but for those that the kernel makes itself. */
function fromAddress(it: RouteAddress, names: LinkNames, raw: RouteObject): KernelObject | null {
  const { prefixLength, noPrefixRoute, deprecated } = it;
  const link = names.get(it.link);
  const address = addressText(it.address);
  if (link === undefined || !isOwnLinkName(link) || address.startsWith('fe80:')) return null;
  const odd = [
    ...(noPrefixRoute === isSingleAddress(address, prefixLength)
      ? []
      : [noPrefixRoute ? 'noprefixroute' : 'with its route']),
    ...(deprecated === address.includes(':') ? [] : ['other lifetime']),
  ];
  return made({ kind: 'address', it: { link, address, prefixLength } }, raw, true, odd);
}

/** All neighbours of our links are ours; those that the kernel makes itself are not read. */
function fromNeighbour(it: RouteNeighbour, names: LinkNames, raw: RouteObject): KernelObject | null {
  const link = names.get(it.link);
  if (link === undefined || !isOwnLinkName(link)) return null;
  const mac = formatMac(it.mac);
  const address = addressText(it.address);
  const neighbour =
    it.kind === 'fdb'
      ? ({ kind: 'fdb', link, mac, remote: address } as const)
      : ({ kind: 'neighbour', link, address, mac } as const);
  return made({ kind: 'neighbour', it: neighbour }, raw, true, []);
}

function fromNexthop(it: RouteNexthop, names: LinkNames, raw: RouteObject): KernelObject | null {
  const { id, protocol, link, via, group } = it;
  if (!isWithin(NEXTHOPS, id)) return null;
  const odd = [
    ...(protocol === PROTOCOL ? [] : [`of protocol ${protocol}`]),
    ...(group.every(({ weight }) => weight === 1) ? [] : ['with weights']),
  ];
  const nexthop =
    group.length > 0
      ? { id, group: group.map((member) => member.id) }
      : { id, via: addressText(via), link: names.get(link) ?? `link ${link}` };
  return made({ kind: 'nexthop', it: nexthop }, raw, protocol === PROTOCOL, odd);
}

function fromRoute(it: Route, raw: RouteObject): KernelObject | null {
  const { family, table, prefixLength, protocol, nexthop, metric, type } = it;
  if (!isWithin(TABLES, table)) return null;
  const isThrow = type === ROUTE_TYPE.throw;
  const odd = [
    ...(protocol === PROTOCOL ? [] : [`of protocol ${protocol}`]),
    ...(type === ROUTE_TYPE.unicast || isThrow ? [] : [`of type ${type}`]),
    ...(metric === METRIC[family] ? [] : [`metric ${metric}`]),
  ];
  const destination = `${addressText(it.destination)}/${prefixLength}`;
  const route = made(
    { kind: 'route', it: { family, table, destination, nexthop: isThrow ? null : nexthop } },
    raw,
    protocol === PROTOCOL,
    odd,
  );
  // Beside ours, and not in its place.
  return metric === METRIC[family] ? route : { ...route, key: `${route.key} metric ${metric}` };
}

/** Ours lead nowhere but to our rules and tables. */
function fromRule(rule: RouteRule, raw: RouteObject): KernelObject | null {
  const { family, priority, protocol, action, table, target, mark, mask, invert, hasMore } = rule;
  if (!isWithin(RULES, priority)) return null;
  const isPlain = protocol === RULE_PROTOCOL && !hasMore;
  const start = { family, priority };
  if (action === 'nop' && isPlain && mask === 0 && !invert) {
    return made({ kind: 'rule', it: { ...start, action } }, raw, true, []);
  }
  if (action === 'goto' && isPlain && isWithin(RULES, target)) {
    const it = { ...start, action, target, mark, mask, ...(invert ? { invert } : {}) };
    return made({ kind: 'rule', it }, raw, true, []);
  }
  if (action === 'table' && isPlain && !invert && isWithin(TABLES, table)) {
    return made({ kind: 'rule', it: { ...start, action, table, mark, mask } }, raw, true, []);
  }
  const ip = family === 4 ? 'ip' : 'ip -6';
  const what = action === 'table' ? `lookup ${table}` : action;
  const text = `${ip} rule add pref ${priority} ${what} protocol ${protocol}${hasMore ? ' …' : ''}`;
  return { key: `foreign ${text} ${mark}/${mask}`, text, isOurs: false, raw };
}

function isWithin([first, last]: readonly [number, number], number: number): boolean {
  return number >= first && number <= last;
}

/** '' of no address. */
function addressText(bytes: Uint8Array): string {
  if (bytes.length !== 4 && bytes.length !== 16) return '';
  return formatAddress(unpackAddress(bytes.length === 4 ? 4 : 6, bytes, 0));
}

export interface NetstateResult {
  /** The changes, as the commands that would make them; a removal begins with `delete: `. */
  readonly operations: readonly string[];
  /** Empty: the kernel has exactly the wanted state. */
  readonly problems: readonly NetProblem[];
}

/** Why the kernel does not have what is wanted. */
export interface NetProblem {
  /** The errno's name; FOREIGN: an object of others has our name or number. */
  readonly code: string;
  /** Which object, what the kernel said, and the way out. */
  readonly message: string;
}

/** The kernel refused to make an object. `error` names it. */
export function kernelRefusal(object: NetObject | null, error: NftError): NetProblem {
  const way = object === null ? wayOut(error) : (wayOutOf(object, error) ?? wayOut(error));
  return { code: error.code, message: way === null ? error.message : `${error.message}. ${way}` };
}

function wayOutOf(object: NetObject, { code, message }: NftError): string | null {
  if (object.kind === 'link' && code === 'EOPNOTSUPP') {
    const { kind } = object.it;
    return `This kernel has no ${kind} devices: load its module (modprobe ${kind}), which some systems have in a package of further modules`;
  }
  if (object.kind === 'link' && object.it.kind === 'vxlan' && code === 'EEXIST') {
    return `Remove the other VXLAN device with id ${object.it.id} and port ${object.it.port} (ip -d link show type vxlan)`;
  }
  if (object.kind === 'nexthop' && /IPv6 is disabled/i.test(message)) {
    return 'IPv4 goes through the tunnel by IPv6 link-local next hops: IPv6 must be on for its device (net.ipv6.conf.NAME.disable_ipv6=0)';
  }
  if (object.kind === 'nexthop' && code === 'EAFNOSUPPORT') {
    return 'IPv4 goes through the tunnel by IPv6 link-local next hops: the kernel must not be started with ipv6.disable=1';
  }
  return code === 'EEXIST' ? 'Another program made it: remove that one, and nodewall makes its own' : null;
}

function wayOut({ code }: NftError): string | null {
  return code === 'EPERM' ? 'The agent needs CAP_NET_ADMIN' : null;
}

/** Other programs' objects, and what is not made because of them. */
export function foreignProblems(
  foreign: readonly KernelObject[],
  blocked: readonly string[],
): readonly NetProblem[] {
  const end = blocked.length === 0 ? '' : `; not made meanwhile: ${blocked.join('; ')}`;
  return foreign.map(({ text }) => ({
    code: 'FOREIGN',
    message: `another program made what only nodewall makes: ${text}. Remove it (docs/egress-datapath.md, Network configuration)${end}`,
  }));
}
