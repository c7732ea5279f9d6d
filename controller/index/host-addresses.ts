import { type ClusterObjects, NO_OBJECTS, type Node } from '../../apis/objects.ts';
import { type Address, BITS, covers, formatAddress, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { listChange } from '../../lib/sharing/list-change.ts';
import { sameItems } from '../../lib/sharing/same-items.ts';

type Objects = Pick<ClusterObjects, 'nodes' | 'pods' | 'services'>;

/** So many addresses that its agent reported count for one Node. */
export const MOST_REPORTED = 64;

/**
 * "This network", loopback, link-local, multicast and reserved addresses, broadcast; unspecified
 * and loopback, IPv4-mapped, link-local and multicast ones of IPv6: they are no machine's alone.
 */
const UNUSABLE = [
  ...['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/3'],
  ...['::/127', '::ffff:0:0/96', 'fe80::/10', 'ff00::/8'],
].flatMap((text) => parseCidr(text)?.cidr ?? []);

/** What a report changed. */
export interface ReportChange {
  readonly isNew: boolean;
  /** Addresses beyond MOST_REPORTED, which are passed over. */
  readonly beyond: number;
}

/**
 * The further addresses that agents reported of their Nodes, over one state of the objects and
 * reports after another. Nobody checks what an agent says of its own machine, so a reported address
 * counts (as `Node.reportedAddresses`) only where nobody else has a claim to it:
 * - no Node object has it (status or annotation), no pod with an address of its own, and no
 *   Service;
 * - no other Node's agent reports it: an address that two report counts for neither;
 * - it is one that a machine can have for itself (see UNUSABLE), and among the first MOST_REPORTED
 *   of those in the report: IPv4 first, in ascending order.
 * An address counts again when the other claim is gone. So the same objects and last reports give
 * the same Nodes, whatever came first. A report counts until the next one of that Node, or until
 * the Node is deleted; one of a Node that there is not is passed over.
 *
 * A report costs its own addresses, and the next `advance` a walk over the Nodes if another address
 * counts then; a change of the objects costs what changed, and a walk over the lists that are
 * others.
 */
export class HostAddresses {
  #objects: Objects = NO_OBJECTS;
  /** `nodes` as they were given out. */
  #nodes: readonly Node[] = NO_OBJECTS.nodes;
  readonly #byName = new Map<string, Node>();
  readonly #reports = new Map<string, readonly string[]>();
  /** From an address to the Nodes that report it. */
  readonly #reporters = new Map<string, Set<string>>();
  /**
   * How many Node objects, pods and Services have an address; null before anything was reported.
   */
  #claims: Map<string, number> | null = null;
  /**
   * The Nodes of which a reported address counts: the object as it was read, and as it is given
   * out.
   */
  readonly #extended = new Map<string, { readonly node: Node; readonly extended: Node }>();
  /** Names of the Nodes for which other addresses may count than before. */
  readonly #stale = new Set<string>();

  /** A Node's addresses as its agent reports them: that counts from the next `advance` on. */
  report(node: string, addresses: readonly string[]): ReportChange {
    const usable = usableAddresses(addresses);
    const beyond = Math.max(0, usable.length - MOST_REPORTED);
    const now = usable.slice(0, MOST_REPORTED);
    const before = this.#reports.get(node) ?? [];
    if (!this.#byName.has(node) || sameItems(now, before)) return { isNew: false, beyond };
    this.#replace(node, before, now);
    return { isNew: true, beyond };
  }

  /**
   * On to this state of the objects: they themselves, with what counts now on each Node. What did
   * not change is the same object.
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
    for (const { name } of changed.removed) this.#byName.delete(name);
    for (const node of changed.added) this.#byName.set(node.name, node);
    for (const { name } of [...changed.removed, ...changed.added]) {
      this.#stale.add(name);
      if (!this.#byName.has(name)) this.#replace(name, this.#reports.get(name) ?? [], []);
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
      this.#markOnly(address);
    }
  }

  #replace(node: string, before: readonly string[], now: readonly string[]): void {
    if (now.length === 0) this.#reports.delete(node);
    else this.#reports.set(node, now);
    this.#stale.add(node);
    for (const address of before) {
      const reporters = this.#reporters.get(address);
      reporters?.delete(node);
      if (reporters?.size === 0) this.#reporters.delete(address);
      else this.#markOnly(address);
    }
    for (const address of now) {
      this.#markOnly(address);
      const reporters = this.#reporters.get(address) ?? new Set();
      this.#reporters.set(address, reporters.add(node));
    }
  }

  /**
   * Where more than one Node reports it, it counts for none: an address that all have costs no walk
   * over them.
   */
  #markOnly(address: string): void {
    const reporters = this.#reporters.get(address);
    if (reporters?.size !== 1) return;
    for (const node of reporters) this.#stale.add(node);
  }

  /** Whether another object stands for the Node than before. */
  #settle(name: string): boolean {
    const before = this.#extended.get(name);
    const node = this.#byName.get(name);
    const counted = (this.#reports.get(name) ?? []).filter(
      (address) => this.#reporters.get(address)?.size === 1 && this.#claims?.has(address) !== true,
    );
    if (node === undefined || counted.length === 0) return this.#extended.delete(name);
    if (node === before?.node && sameItems(counted, before.extended.reportedAddresses ?? [])) return false;
    this.#extended.set(name, { node, extended: { ...node, reportedAddresses: counted } });
    return true;
  }
}

function* claimants({ nodes, pods, services }: Objects): Iterable<readonly string[]> {
  for (const { addresses } of nodes) yield addresses;
  for (const { addresses } of pods) yield addresses;
  for (const { clusterIPs, externalAddresses = [] } of services) {
    yield clusterIPs;
    yield externalAddresses;
  }
}

/** In one way to write them, each once, sorted. */
function usableAddresses(texts: readonly string[]): string[] {
  const found = texts.flatMap((text) => parseAddress(text) ?? []).filter(isUsable);
  found.sort((a, b) => a.family - b.family || (a.value < b.value ? -1 : a.value > b.value ? 1 : 0));
  return [...new Set(found.map(formatAddress))];
}

function isUsable({ family, value }: Address): boolean {
  return !UNUSABLE.some((block) => covers(block, { family, value, length: BITS[family] }));
}
