import { type ClusterObjects, NO_OBJECTS, type Node } from '../../apis/objects.ts';
import {
  type Address,
  type Cidr,
  formatAddress,
  isCovered,
  PRIVATE_NETWORKS,
  parseAddress,
  parseCidr,
} from '../../lib/net/address.ts';
import { compareBigInts, listChange, sameItems } from '../../lib/sharing/lists.ts';
import { PodNetworks } from './accepted-addresses.ts';

type Objects = Pick<ClusterObjects, 'nodes' | 'pods' | 'services'>;

/** The most reported addresses that are used for one Node. */
export const MOST_REPORTED = 64;

/**
 * IPv4: "this network", loopback, link-local, multicast, reserved and broadcast addresses. IPv6:
 * unspecified, loopback, IPv4-mapped, link-local and multicast addresses. None of them belongs to
 * one machine alone.
 */
const UNUSABLE = [
  ...['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/3'],
  ...['::/127', '::ffff:0:0/96', 'fe80::/10', 'ff00::/8'],
].flatMap((text) => parseCidr(text)?.cidr ?? []);

/** Private networks, and those of documentation (RFC 5737, RFC 3849): none is on the Internet. */
const NOT_PUBLIC = [
  ...PRIVATE_NETWORKS,
  ...['192.0.2.0/24', '198.51.100.0/24', '203.0.113.0/24', '2001:db8::/32'],
];

/** The addresses of a report that can count. */
interface UsableAddresses {
  /** At most MOST_REPORTED, in canonical form, sorted. */
  readonly usable: readonly string[];
  /** The number of addresses beyond MOST_REPORTED, which are ignored. */
  readonly beyond: number;
  /** The number of addresses outside of the networks of Nodes, which are ignored. */
  readonly outside: number;
}

/**
 * The further addresses that agents report of their machines, maintained over successive states of
 * the objects and reports. An agent's report about its own machine is not verified, so a reported
 * address counts (as `Node.reportedAddresses`) only if nothing else claims it:
 * - no Node object has it (status or annotation), no pod with an address of its own, and no
 *   Service;
 * - no other Node's agent reports it: an address that two report counts for the one whose pod
 *   network (spec.podCIDRs) it is in, and for neither if that is not exactly one;
 * - it is inside the configuration's nodeCIDRs, if there are any; else it is private, and in the
 *   network of no other Node's pods;
 * - it can belong to one machine alone (see UNUSABLE), and is among the first MOST_REPORTED such
 *   addresses of the report: IPv4 first, in ascending order.
 * An address counts again when the other claim is gone. So the same objects and last reports give
 * the same Nodes, in whatever order they arrived. A report counts until the next one of that Node,
 * or until the Node is deleted; a report for an unknown Node is ignored.
 *
 * A report costs its own addresses, and if another address counts then, the next `advance` a pass
 * over the Nodes. A change of the objects costs the changed ones, and a pass over each list that is
 * a different array.
 */
export class HostAddresses {
  #objects: Objects = NO_OBJECTS;
  /** `nodes` as last returned. */
  #nodes: readonly Node[] = NO_OBJECTS.nodes;
  readonly #byName = new Map<string, Node>();
  readonly #reports = new Map<string, readonly string[]>();
  /** The names of the Nodes that report an address. */
  readonly #reporters = new Map<string, Set<string>>();
  /** By reported address: those of its reporters whose pod networks have it. */
  readonly #owners = new Map<string, Set<string>>();
  /**
   * The number of Node objects, pods and Services that have an address; null as long as there are
   * no reports.
   */
  #claims: Map<string, number> | null = null;
  /** Asked only where there are no nodeCIDRs. */
  readonly #networks = new PodNetworks();
  /** The Nodes with reported addresses that count: the object as read, and as returned. */
  readonly #extended = new Map<string, { readonly node: Node; readonly extended: Node }>();
  /** Names of the Nodes whose counting addresses may have changed. */
  readonly #stale = new Set<string>();
  readonly #cidrs: readonly Cidr[];
  /** Whether the configuration names the networks of Nodes. */
  readonly #areNamed: boolean;

  /** @param nodeCIDRs of the configuration; empty: private addresses count */
  constructor(nodeCIDRs: readonly string[] = []) {
    const networks = nodeCIDRs.length === 0 ? NOT_PUBLIC : nodeCIDRs;
    this.#areNamed = nodeCIDRs.length > 0;
    this.#cidrs = networks.flatMap((text) => parseCidr(text)?.cidr ?? []);
  }

  usable(addresses: readonly string[]): UsableAddresses {
    const ofOne = addresses
      .flatMap((text) => parseAddress(text) ?? [])
      .filter((address) => !isCovered(UNUSABLE, address));
    const inside = ofOne.filter((one) => isCovered(this.#cidrs, one));
    const all = canonical(inside);
    return {
      usable: all.slice(0, MOST_REPORTED),
      beyond: Math.max(0, all.length - MOST_REPORTED),
      outside: ofOne.length - inside.length,
    };
  }

  /**
   * Sets the addresses that a Node's agent reports, effective at the next `advance`. Returns
   * whether they are new.
   */
  report(node: string, addresses: readonly string[]): boolean {
    const { usable } = this.usable(addresses);
    const before = this.#reports.get(node) ?? [];
    if (!this.#byName.has(node) || sameItems(usable, before)) return false;
    this.#replace(node, before, usable);
    return true;
  }

  has(node: string): boolean {
    return this.#byName.has(node);
  }

  /**
   * Advances to this state of the objects, and returns it with the addresses that count now on each
   * Node. Unchanged objects and lists are the same ones.
   */
  advance<T extends Objects>(objects: T): T {
    this.#follow(objects);
    let isSame = objects.nodes === this.#objects.nodes;
    for (const name of this.#stale) isSame = !this.#settle(name) && isSame;
    this.#stale.clear();
    this.#objects = objects;
    if (!isSame) {
      const nodes = objects.nodes.map((node) => this.#extended.get(node.name)?.extended ?? node);
      this.#nodes = this.#extended.size === 0 ? objects.nodes : nodes;
    }
    return this.#nodes === objects.nodes ? objects : { ...objects, nodes: this.#nodes };
  }

  #follow({ nodes, pods, services }: Objects): void {
    const before = this.#objects;
    const changed = listChange(before.nodes, nodes);
    if (!this.#areNamed && this.#networks.change(changed))
      for (const name of this.#reports.keys()) this.#stale.add(name);
    for (const { name } of changed.removed) this.#byName.delete(name);
    for (const node of changed.added) this.#byName.set(node.name, node);
    for (const { name } of [...changed.removed, ...changed.added]) {
      this.#stale.add(name);
      const reported = this.#reports.get(name) ?? [];
      this.#replace(name, reported, this.#byName.has(name) ? reported : []);
    }
    if (this.#reports.size === 0) {
      this.#claims = null;
      return;
    }
    if (this.#claims === null) {
      this.#claims = new Map();
      for (const one of claimants({ nodes, pods, services })) this.#claim(one, 1);
      return;
    }
    const changes = {
      nodes: changed,
      pods: listChange(before.pods, pods),
      services: listChange(before.services, services),
    };
    const side = (which: 'removed' | 'added') => ({
      nodes: changes.nodes[which],
      pods: changes.pods[which],
      services: changes.services[which],
    });
    for (const one of claimants(side('removed'))) this.#claim(one, -1);
    for (const one of claimants(side('added'))) this.#claim(one, 1);
  }

  #claim(addresses: readonly string[], by: 1 | -1): void {
    const claims = this.#claims;
    if (claims === null) return;
    for (const address of addresses) {
      const count = (claims.get(address) ?? 0) + by;
      if (count === 0) claims.delete(address);
      else claims.set(address, count);
      this.#mark(address);
    }
  }

  #replace(node: string, before: readonly string[], now: readonly string[]): void {
    if (now.length === 0) this.#reports.delete(node);
    else this.#reports.set(node, now);
    this.#stale.add(node);
    for (const address of before) {
      remove(this.#reporters, address, node);
      remove(this.#owners, address, node);
      this.#mark(address);
    }
    const networks = (this.#byName.get(node)?.podCIDRs ?? []).flatMap((text) => parseCidr(text)?.cidr ?? []);
    for (const address of now) {
      this.#mark(address);
      add(this.#reporters, address, node);
      const parsed = networks.length === 0 ? null : parseAddress(address);
      if (parsed === null || !isCovered(networks, parsed)) continue;
      add(this.#owners, address, node);
    }
  }

  /**
   * Marks the Nodes for which a reported address may count: the only one that reports it, and those
   * whose pod networks have it. An address that all Nodes have costs no pass over them.
   */
  #mark(address: string): void {
    const reporters = this.#reporters.get(address);
    if (reporters?.size === 1) for (const node of reporters) this.#stale.add(node);
    for (const node of this.#owners.get(address) ?? []) this.#stale.add(node);
  }

  #counts(address: string, node: string): boolean {
    if (this.#claims?.has(address) === true || this.#isOfOtherPods(address, node)) return false;
    if (this.#reporters.get(address)?.size === 1) return true;
    const owners = this.#owners.get(address);
    return owners?.size === 1 && owners.has(node);
  }

  #isOfOtherPods(text: string, node: string): boolean {
    const address = this.#networks.areNone ? null : parseAddress(text);
    const networks = address === null ? [] : this.#networks.of(address);
    return networks.length > 0 && !networks.includes(node);
  }

  /** Updates a Node's entry; returns whether the returned object changes. */
  #settle(name: string): boolean {
    const before = this.#extended.get(name);
    const node = this.#byName.get(name);
    const counted = (this.#reports.get(name) ?? []).filter((address) => this.#counts(address, name));
    if (node === undefined || counted.length === 0) return this.#extended.delete(name);
    if (node === before?.node && sameItems(counted, before.extended.reportedAddresses ?? [])) return false;
    this.#extended.set(name, { node, extended: { ...node, reportedAddresses: counted } });
    return true;
  }
}

function add(sets: Map<string, Set<string>>, key: string, item: string): void {
  sets.set(key, (sets.get(key) ?? new Set()).add(item));
}

function remove(sets: Map<string, Set<string>>, key: string, item: string): void {
  const set = sets.get(key);
  set?.delete(item);
  if (set?.size === 0) sets.delete(key);
}

function* claimants({ nodes, pods, services }: Objects): Iterable<readonly string[]> {
  for (const { addresses } of nodes) yield addresses;
  for (const { addresses } of pods) yield addresses;
  for (const { clusterIPs, externalAddresses = [] } of services) {
    yield clusterIPs;
    yield externalAddresses;
  }
}

/** Texts, unique, sorted. */
function canonical(addresses: readonly Address[]): string[] {
  const sorted = [...addresses];
  sorted.sort((a, b) => a.family - b.family || compareBigInts(a.value, b.value));
  return [...new Set(sorted.map(formatAddress))];
}

/**
 * The public keys of the Nodes' WireGuard devices, as agents report them. Nobody proves that a key
 * is its own, and a device has one peer for each key: a key that another Node has already does not
 * count, until that Node has another one or is deleted. So no Node takes away the tunnel of another
 * one while a controller runs that knows both.
 */
export class TunnelKeys {
  readonly #keys = new Map<string, string>();
  /** The Node of each key. */
  readonly #holders = new Map<string, string>();
  #last: { readonly of: readonly Node[]; readonly nodes: readonly Node[] } | null = null;
  /** The Nodes with keys: the object as given, and as returned. */
  #extended = new Map<string, { readonly node: Node; readonly extended: Node }>();

  /** Sets the key of a Node; null: it has none. */
  report(node: string, key: string | null): 'new' | 'same' | 'taken' {
    const before = this.#keys.get(node) ?? null;
    if (key === before) return 'same';
    if (key !== null && this.#holders.has(key)) return 'taken';
    if (before !== null) this.#holders.delete(before);
    if (key === null) this.#keys.delete(node);
    else this.#keys.set(node, key);
    if (key !== null) this.#holders.set(key, node);
    this.#last = null;
    return 'new';
  }

  /** The Node that has the key. */
  holder(key: string): string | undefined {
    return this.#holders.get(key);
  }

  /** The objects with the keys. Unchanged objects and lists are the same ones. */
  on<T extends Pick<ClusterObjects, 'nodes'>>(objects: T): T {
    if (this.#keys.size === 0) return objects;
    if (this.#last?.of !== objects.nodes)
      this.#last = { of: objects.nodes, nodes: this.#extend(objects.nodes) };
    return { ...objects, nodes: this.#last.nodes };
  }

  #extend(nodes: readonly Node[]): readonly Node[] {
    const before = this.#extended;
    this.#extended = new Map();
    return nodes.map((node) => {
      const tunnelKey = this.#keys.get(node.name);
      if (tunnelKey === undefined) return node;
      const known = before.get(node.name);
      const isSame = known?.node === node && known.extended.tunnelKey === tunnelKey;
      const one = isSame ? known : { node, extended: { ...node, tunnelKey } };
      this.#extended.set(node.name, one);
      return one.extended;
    });
  }
}
