import { isDeepStrictEqual } from 'node:util';
import type { RouteObject } from 'nftables-napi';
import { OWN_NETWORK } from '../../../apis/egress/netstate.ts';
import { BITS, parseAddress } from '../../../lib/net/address.ts';
import { packAddress } from '../../../lib/net/member-set.ts';
import { type KernelObject, METRIC, ROUTE_TYPE, RULE_PROTOCOL } from './kernel-object.ts';
import { isSingleAddress, type NetObject, netObjectKey, objectText } from './net-object.ts';

/** By key. */
export type KernelObjects = ReadonlyMap<string, KernelObject>;

/** `text` is the command that makes the object. */
export type NetOperation = { readonly key: string; readonly text: string } & (
  | { readonly operation: 'add' | 'replace'; readonly object: NetObject }
  | { readonly operation: 'delete'; readonly found: KernelObject }
);

interface Difference {
  /** First, whatever links need: objects on a new link can only be made when its index is known. */
  readonly links: readonly NetOperation[];
  /**
   * In this order: what is new or changed, from neighbours to rules; removals, from rules to links.
   */
  readonly rest: readonly NetOperation[];
  /** Objects of others that have our names or numbers: nothing is done about them. */
  readonly foreign: readonly KernelObject[];
  /**
   * Objects that are not made because one of others is in the place of them or of what they need.
   */
  readonly blocked: readonly string[];
}

const NO_INDEXES: ReadonlyMap<string, number> = new Map();

/**
 * The operations that make the kernel's objects the wanted ones. `wanted` is in the order of
 * netObjects().
 */
export function networkDifference(current: KernelObjects, wanted: readonly NetObject[]): Difference {
  const remade = wanted.flatMap((object) => {
    const found = current.get(netObjectKey(object));
    return found?.isOurs && mustRemake(found.raw, object) ? [found] : [];
  });
  const lost = new Set([...lostWith(remade, current), ...lostWithMacs(wanted, current)]);
  const blocked = new Blocked();
  const set: NetOperation[] = [];
  for (const object of wanted) {
    const key = netObjectKey(object);
    const text = objectText(object);
    const found = current.get(key);
    if (blocked.isBlocked(object, found)) continue;
    if (found === undefined)
      set.push({ operation: isKernelMade(object) ? 'replace' : 'add', object, key, text });
    else if (lost.has(key) || found.text !== text) set.push({ operation: 'replace', object, key, text });
  }
  const kept = new Set(wanted.map(netObjectKey));
  const removals = [...current.values()]
    .filter(({ key, isOurs }) => isOurs && !kept.has(key))
    .sort((a, b) => removalRank(a.raw) - removalRank(b.raw));
  const isLink = (it: NetOperation): boolean => it.operation !== 'delete' && it.object.kind === 'link';
  return {
    links: [...remade.filter(({ raw }) => raw.kind === 'link').map(removal), ...set.filter(isLink)].map(
      (it) => asNew(it, lost),
    ),
    rest: [
      ...remade.filter(({ raw }) => raw.kind !== 'link').map(removal),
      ...set.filter((it) => !isLink(it)),
      ...removals.map(removal),
    ],
    foreign: [...current.values()].filter(({ isOurs }) => !isOurs),
    blocked: blocked.texts,
  };
}

function removal(found: KernelObject): NetOperation {
  return { operation: 'delete', found, key: found.key, text: found.text };
}

/** A link that was removed before is made, not changed. */
function asNew(it: NetOperation, lost: ReadonlySet<string>): NetOperation {
  return it.operation === 'replace' && lost.has(it.key) ? { ...it, operation: 'add' } : it;
}

/** Whether the kernel refuses to make the one into the other. */
function mustRemake(raw: RouteObject, object: NetObject): boolean {
  if (raw.kind === 'link') {
    const wanted = toKernelRouteObject(object, NO_INDEXES);
    return wanted.kind === 'link' && !isDeepStrictEqual(raw.link.vxlan, wanted.link.vxlan);
  }
  if (raw.kind !== 'nexthop' || object.kind !== 'nexthop') return false;
  return raw.nexthop.group.length > 0 !== 'group' in object.it;
}

/** The keys of all that the kernel removes with these; perhaps of more, but for rules. */
function lostWith(removed: readonly KernelObject[], current: KernelObjects): ReadonlySet<string> {
  const keys = new Set(removed.map(({ key }) => key));
  if (keys.size === 0) return keys;
  const links = new Set(removed.flatMap(({ raw }) => (raw.kind === 'link' ? [raw.link.index] : [])));
  const nexthops = new Set(removed.flatMap(({ raw }) => (raw.kind === 'nexthop' ? [raw.nexthop.id] : [])));
  function isLost(raw: RouteObject): boolean {
    switch (raw.kind) {
      case 'address':
        return links.has(raw.address.link);
      case 'neighbour':
        return links.has(raw.neighbour.link);
      case 'nexthop':
        return links.has(raw.nexthop.link) || raw.nexthop.group.some(({ id }) => nexthops.has(id));
      case 'route':
        return nexthops.has(raw.route.nexthop);
      default:
        return false;
    }
  }
  // A group may stand before its members.
  const objects = [...current.values()].sort((a, b) => removalRank(b.raw) - removalRank(a.raw));
  for (const { key, raw } of objects) {
    if (!isLost(raw)) continue;
    keys.add(key);
    if (raw.kind === 'nexthop') nexthops.add(raw.nexthop.id);
  }
  return keys;
}

/** A link that gets another MAC loses its neighbours, permanent ones too (neigh_changeaddr). */
function lostWithMacs(wanted: readonly NetObject[], current: KernelObjects): readonly string[] {
  const links = wanted.flatMap((object) => {
    if (object.kind !== 'link') return [];
    const raw = current.get(netObjectKey(object))?.raw;
    const after = toKernelRouteObject(object, NO_INDEXES);
    const isChanged = raw?.kind === 'link' && after.kind === 'link' && after.link.mac.length > 0;
    return isChanged && !isDeepStrictEqual(raw.link.mac, after.link.mac) ? [raw.link.index] : [];
  });
  if (links.length === 0) return [];
  return [...current.values()].flatMap(({ key, raw }) =>
    raw.kind === 'neighbour' && raw.neighbour.kind === 'neighbour' && links.includes(raw.neighbour.link)
      ? [key]
      : [],
  );
}

/** Later ones are needed by earlier ones. */
function removalRank(raw: RouteObject): number {
  switch (raw.kind) {
    case 'rule':
      return raw.rule.priority;
    case 'route':
      return 1000;
    case 'nexthop':
      return raw.nexthop.group.length > 0 ? 1001 : 1002;
    case 'neighbour':
      return 1003;
    case 'address':
      return 1004;
    case 'link':
      return 1005;
  }
}

/** Objects of others in the place of ours, and what would need ours. */
export class Blocked {
  readonly texts: string[] = [];
  readonly #links: Set<string>;
  readonly #nexthops = new Set<number>();

  /** @param links on which nothing is made either */
  constructor(links: Iterable<string> = []) {
    this.#links = new Set(links);
  }

  /** To be asked in the order of netObjects(). */
  isBlocked(object: NetObject, found?: KernelObject): boolean {
    const link = linkOf(object);
    const isBlocked =
      found?.isOurs === false ||
      (link !== null && this.#links.has(link)) ||
      this.#nexthopsOf(object).some((id) => this.#nexthops.has(id));
    if (!isBlocked) return false;
    this.texts.push(objectText(object));
    if (object.kind === 'link') this.#links.add(object.it.name);
    if (object.kind === 'nexthop') this.#nexthops.add(object.it.id);
    return true;
  }

  #nexthopsOf(object: NetObject): readonly number[] {
    if (object.kind === 'route') return object.it.nexthop === null ? [] : [object.it.nexthop];
    return object.kind === 'nexthop' && 'group' in object.it ? object.it.group : [];
  }
}

/** The kernel makes a neighbour that packets ask for itself; it is not permanent. */
function isKernelMade({ kind }: NetObject): boolean {
  return kind === 'neighbour';
}

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
function linkOf(object: NetObject): string | null {
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
