import type { EgressConfig } from '../../apis/egress/config.ts';
import type { EgressGateway, InsideNetworks } from '../../apis/egress/objects.ts';
import type { Node, Pod } from '../../apis/objects.ts';
import { BITS, type Cidr, type Family, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { type Interval, toInterval, union } from '../../lib/net/interval.ts';
import { changeAddresses, type MemberSet, NO_MEMBERS, toMemberSet } from '../../lib/net/member-set.ts';
import type { ListChange } from '../../lib/sharing/list-change.ts';
import { sameItems } from '../../lib/sharing/same-items.ts';
import { addressesOf } from '../index/object-index.ts';
import { poolCidrs, toPool } from './pool.ts';
import { cidrIntervals, hasInterval } from './segments.ts';

/** Loopback, link-local and multicast. */
export const ALWAYS_INSIDE = [
  '127.0.0.0/8',
  '169.254.0.0/16',
  '224.0.0.0/4',
  '::1/128',
  'fe80::/10',
  'ff00::/8',
];

export interface InsideParts {
  readonly nodes: readonly Node[];
  readonly egressGateways: readonly EgressGateway[];
  readonly insideNetworks: readonly InsideNetworks[];
}

/** The networks that are inside the cluster, in one state of the objects. */
export interface Inside {
  /** Destinations that are never steered. */
  readonly members: MemberSet;
  /** The addresses of all Nodes. */
  readonly nodes: MemberSet;
  /** The Nodes' pod networks, by family. */
  readonly podNetworks: Readonly<Record<Family, readonly Interval[]>>;
}

type Intervals = Readonly<Record<Family, readonly Interval[]>>;

/** Follows the inside networks over successive states of the objects. */
export class InsideIndex {
  readonly #config: EgressConfig;
  #parts: readonly (readonly object[])[] = [];
  /** What the networks were made of. */
  #texts: readonly string[] = [];
  /** All but the pods. */
  #static: Intervals = NO_INTERVALS;
  /** How many pods have an address that no network of #static contains. */
  readonly #podCounts = new Map<string, number>();
  #inside: Inside = { members: NO_MEMBERS, nodes: NO_MEMBERS, podNetworks: NO_INTERVALS };

  constructor(config: EgressConfig) {
    this.#config = config;
  }

  /**
   * Returns the same object if nothing changed. A pod costs its addresses, another network a pass
   * over the pods.
   */
  advance(parts: InsideParts, pods: readonly Pod[], change: ListChange<Pod>): Inside {
    const now = [parts.nodes, parts.egressGateways, parts.insideNetworks];
    const isSame = sameItems(now, this.#parts) || !this.#advanceNetworks(parts, pods);
    if (isSame) this.#changePods(change);
    this.#parts = now;
    return this.#inside;
  }

  /** False if the networks are as before. */
  #advanceNetworks(parts: InsideParts, pods: readonly Pod[]): boolean {
    const nodeAddresses = parts.nodes.flatMap(addressesOf);
    const podCIDRs = parts.nodes.flatMap((node) => node.podCIDRs ?? []);
    const networks = networksOf(parts, this.#config);
    const pools = parts.egressGateways.flatMap(({ spec }) => spec.ranges);
    const texts = [...networks, '', ...pools, '', ...podCIDRs, '', ...nodeAddresses];
    if (sameItems(texts, this.#texts)) return false;
    this.#texts = texts;
    const blocks = [...networks, ...podCIDRs].flatMap((text) => parseCidr(text)?.cidr ?? []);
    const cidrs = [...blocks, ...poolCidrs(toPool(pools))];
    const hosts = nodeAddresses.flatMap((text) => hostCidr(text) ?? []);
    const intervals = (family: Family): Interval[] =>
      union([...cidrs, ...hosts].filter((cidr) => cidr.family === family).map(toInterval));
    this.#static = { 4: intervals(4), 6: intervals(6) };
    this.#podCounts.clear();
    for (const { addresses } of pods) for (const address of addresses) this.#count(address, 1);
    this.#inside = {
      members: toMemberSet(
        cidrs.map((cidr) => ({ cidr, except: [] })),
        [...nodeAddresses, ...this.#podCounts.keys()],
      ),
      nodes: toMemberSet([], nodeAddresses),
      podNetworks: { 4: cidrIntervals(podCIDRs, 4), 6: cidrIntervals(podCIDRs, 6) },
    };
    return true;
  }

  #changePods({ removed, added }: ListChange<Pod>): void {
    const before = new Map<string, boolean>();
    const count = (pods: readonly Pod[], by: number): void => {
      for (const address of pods.flatMap((pod) => pod.addresses)) {
        if (!before.has(address)) before.set(address, this.#podCounts.has(address));
        this.#count(address, by);
      }
    };
    count(removed, -1);
    count(added, 1);
    const changed = [...before].filter(([address, was]) => this.#podCounts.has(address) !== was);
    if (changed.length === 0) return;
    const gone = changed.filter(([, was]) => was).map(([address]) => address);
    const come = changed.filter(([, was]) => !was).map(([address]) => address);
    this.#inside = { ...this.#inside, members: changeAddresses(this.#inside.members, gone, come) };
  }

  #count(text: string, by: number): void {
    const address = parseAddress(text);
    if (address === null || hasInterval(this.#static[address.family], address.value)) return;
    const count = (this.#podCounts.get(text) ?? 0) + by;
    if (count > 0) this.#podCounts.set(text, count);
    else this.#podCounts.delete(text);
  }
}

const NO_INTERVALS: Intervals = { 4: [], 6: [] };

/** The networks that are neither pods' nor pools. */
function networksOf({ insideNetworks }: InsideParts, { inside, serviceCIDRs }: EgressConfig): string[] {
  const services = insideNetworks.some(({ kind }) => kind === 'ServiceCIDR') ? [] : serviceCIDRs;
  return [...ALWAYS_INSIDE, ...inside, ...services, ...insideNetworks.flatMap(({ cidrs }) => cidrs)];
}

function hostCidr(text: string): Cidr | null {
  const address = parseAddress(text);
  return address === null ? null : { ...address, length: BITS[address.family] };
}

/** Whether the address is in the pod network of a Node. */
export function isPodAddress({ podNetworks }: Inside, text: string): boolean {
  const address = parseAddress(text);
  return address !== null && hasInterval(podNetworks[address.family], address.value);
}
