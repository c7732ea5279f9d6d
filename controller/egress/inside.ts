import type { EgressConfig } from '../../apis/egress/config.ts';
import type { EgressGateway, InsideNetworks } from '../../apis/egress/objects.ts';
import type { Node, Pod } from '../../apis/objects.ts';
import { type Cidr, type Family, parseAddress, parseCidr } from '../../lib/net/address.ts';
import type { Interval } from '../../lib/net/interval.ts';
import {
  addAddresses,
  type Block,
  changeAddresses,
  hasAddress,
  hasMember,
  type MemberSet,
  toMemberSet,
} from '../../lib/net/member-set.ts';
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

/** Follows the inside networks over successive states of the objects. */
export class InsideIndex {
  readonly #config: EgressConfig;
  #parts: readonly (readonly object[])[] = [];
  /** Without the pods. */
  #static: MemberSet = toMemberSet([], []);
  /** How many pods have an address that no network of #static contains. */
  readonly #podCounts = new Map<string, number>();
  #inside: Inside = { members: this.#static, nodes: this.#static, podNetworks: { 4: [], 6: [] } };

  constructor(config: EgressConfig) {
    this.#config = config;
  }

  /** Returns the same object if nothing changed. A pod costs its addresses; all else a pass over the pods. */
  advance(parts: InsideParts, pods: readonly Pod[], change: ListChange<Pod>): Inside {
    const now = [parts.nodes, parts.egressGateways, parts.insideNetworks];
    if (sameItems(now, this.#parts)) this.#changePods(change);
    else this.#rebuild(parts, pods);
    this.#parts = now;
    return this.#inside;
  }

  #rebuild(parts: InsideParts, pods: readonly Pod[]): void {
    const nodeAddresses = parts.nodes.flatMap(addressesOf);
    this.#static = toMemberSet(insideBlocks(parts, this.#config), nodeAddresses);
    this.#podCounts.clear();
    for (const { addresses } of pods) for (const address of addresses) this.#count(address, 1);
    const podCIDRs = parts.nodes.flatMap((node) => node.podCIDRs ?? []);
    this.#inside = {
      members: addAddresses(this.#static, this.#podCounts.keys()),
      nodes: toMemberSet([], nodeAddresses),
      podNetworks: { 4: cidrIntervals(podCIDRs, 4), 6: cidrIntervals(podCIDRs, 6) },
    };
  }

  #changePods({ removed, added }: ListChange<Pod>): void {
    const before = new Map<string, boolean>();
    for (const [pods, by] of [
      [removed, -1],
      [added, 1],
    ] as const) {
      for (const address of pods.flatMap((pod) => pod.addresses)) {
        if (!before.has(address)) before.set(address, this.#podCounts.has(address));
        this.#count(address, by);
      }
    }
    const changed = [...before].filter(([address, was]) => this.#podCounts.has(address) !== was);
    if (changed.length === 0) return;
    const gone = changed.filter(([, was]) => was).map(([address]) => address);
    const come = changed.filter(([, was]) => !was).map(([address]) => address);
    this.#inside = { ...this.#inside, members: changeAddresses(this.#inside.members, gone, come) };
  }

  #count(address: string, by: number): void {
    if (hasAddress(this.#static, address)) return;
    const count = (this.#podCounts.get(address) ?? 0) + by;
    if (count > 0) this.#podCounts.set(address, count);
    else this.#podCounts.delete(address);
  }
}

function insideBlocks({ nodes, egressGateways, insideNetworks }: InsideParts, config: EgressConfig): Block[] {
  const services = insideNetworks.some(({ kind }) => kind === 'ServiceCIDR') ? [] : config.serviceCIDRs;
  const texts = [
    ...ALWAYS_INSIDE,
    ...config.inside,
    ...services,
    ...insideNetworks.flatMap(({ cidrs }) => cidrs),
    ...nodes.flatMap(({ podCIDRs = [] }) => podCIDRs),
  ];
  const cidrs = texts.flatMap((text): readonly Cidr[] => {
    const cidr = parseCidr(text)?.cidr;
    return cidr === undefined ? [] : [cidr];
  });
  const pools = egressGateways.flatMap(({ spec }) => poolCidrs(toPool(spec.ranges)));
  return [...cidrs, ...pools].map((cidr) => ({ cidr, except: [] }));
}

export function isInside({ members }: Inside, text: string): boolean {
  const address = parseAddress(text);
  return address !== null && hasMember(members, address);
}

/** Whether the address is in the pod network of a Node. */
export function isPodAddress({ podNetworks }: Inside, text: string): boolean {
  const address = parseAddress(text);
  return address !== null && hasInterval(podNetworks[address.family], address.value);
}
