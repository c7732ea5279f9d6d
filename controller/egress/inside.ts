import type { EgressConfig } from '../../apis/egress/config.ts';
import type { EgressGateway, InsideNetworks } from '../../apis/egress/objects.ts';
import type { Node, Pod } from '../../apis/objects.ts';
import {
  BITS,
  type Cidr,
  type Family,
  PRIVATE_NETWORKS,
  parseAddress,
  parseCidr,
} from '../../lib/net/address.ts';
import { isAddressIn, poolCidrs, toPool } from '../../lib/net/address-pool.ts';
import { type Interval, toInterval, union } from '../../lib/net/interval.ts';
import { changeAddresses, type MemberSet, NO_MEMBERS, toMemberSet } from '../../lib/net/member-set.ts';
import { AddressUnion, hasInterval, type OwnedRange, ownedRange } from '../../lib/net/range-index.ts';
import { type ListChange, sameItems } from '../../lib/sharing/lists.ts';
import { comparePods } from './order.ts';
import { intervalsOf } from './segments.ts';

interface InsideParts {
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
  /** The Nodes' pod networks that count, by family. */
  readonly podNetworks: Intervals;
  /** The same of each Node that has any. */
  readonly networksOf: ReadonlyMap<string, Intervals>;
  /** Further networks of which an address that nobody has is taken for a pod's. */
  readonly likelyPods: Intervals;
  /** Pod networks and addresses that Nodes and pods say and that do not count, for messages. */
  readonly leftOut: ReadonlySet<string>;
}

type Intervals = Readonly<Record<Family, readonly Interval[]>>;

/** Follows the inside networks over successive states of the objects. */
export class InsideIndex {
  readonly #config: NetworksConfig;
  #parts: readonly (readonly object[])[] = [];
  /** The texts that the networks were made of. */
  #texts: readonly string[] = [];
  /** All but the pods. */
  #static: Intervals = NO_INTERVALS;
  #isCredible: (text: string) => boolean = () => false;
  /** How many pods have an address that no network of #static contains. */
  readonly #podCounts = new Map<string, number>();
  /** The same of those that do not count. */
  readonly #strayCounts = new Map<string, number>();
  #strayNetworks: readonly string[] = [];
  #inside: Inside = {
    members: NO_MEMBERS,
    nodes: NO_MEMBERS,
    podNetworks: NO_INTERVALS,
    networksOf: new Map(),
    likelyPods: NO_INTERVALS,
    leftOut: new Set(),
  };

  constructor(config: NetworksConfig) {
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
    const { nodes, insideNetworks } = parts;
    const networks = namedNetworks(insideNetworks, this.#config);
    const pools = parts.egressGateways.flatMap(({ spec }) => spec.ranges);
    const nodeTexts = nodes.flatMap(({ name, addresses, podCIDRs = [], reportedAddresses = [] }) => [
      ...['', name, ...addresses, '', ...podCIDRs, '', ...reportedAddresses],
    ]);
    const texts = [...networks, '', ...pools, '', ...nodeTexts];
    if (sameItems(texts, this.#texts)) return false;
    this.#texts = texts;
    const counts = credible(insideNetworks, this.#config);
    const isCredible = (text: string): boolean => ownedRange(text, '').every(counts);
    this.#isCredible = isCredible;
    this.#strayNetworks = nodes
      .flatMap(({ podCIDRs = [], reportedAddresses = [] }) => [...podCIDRs, ...reportedAddresses])
      .filter((text) => !isCredible(text));
    const ofNodes = nodes.flatMap(({ name, podCIDRs = [] }) => {
      const counting = podCIDRs.filter(isCredible);
      return counting.length === 0 ? [] : [[name, counting] as const];
    });
    const podCIDRs = ofNodes.flatMap(([, counting]) => counting);
    const nodeAddresses = nodes.flatMap(({ addresses, reportedAddresses = [] }) => [
      ...addresses,
      ...reportedAddresses.filter(isCredible),
    ]);
    const blocks = [...networks, ...podCIDRs].flatMap((text) => parseCidr(text)?.cidr ?? []);
    const cidrs = [...blocks, ...poolCidrs(toPool(pools))];
    const hosts = nodeAddresses.flatMap((text) => hostCidr(text) ?? []);
    const intervals = (family: Family): Interval[] =>
      union([...cidrs, ...hosts].filter((cidr) => cidr.family === family).map(toInterval));
    this.#static = { 4: intervals(4), 6: intervals(6) };
    this.#podCounts.clear();
    this.#strayCounts.clear();
    for (const { addresses } of pods) for (const address of addresses) this.#count(address, 1);
    this.#inside = {
      members: toMemberSet(
        cidrs.map((cidr) => ({ cidr, except: [] })),
        [...nodeAddresses, ...this.#podCounts.keys()],
      ),
      nodes: toMemberSet([], nodeAddresses),
      podNetworks: intervalsOf(podCIDRs),
      networksOf: new Map(ofNodes.map(([name, counting]) => [name, intervalsOf(counting)])),
      likelyPods: intervalsOf(likelyPodNetworks(insideNetworks, this.#config, podCIDRs.length > 0)),
      leftOut: this.#leftOut(),
    };
    return true;
  }

  #changePods({ removed, added }: ListChange<Pod>): void {
    const before = new Map<string, boolean>();
    const strays = this.#strayCounts.size;
    const count = (pods: readonly Pod[], by: number): void => {
      for (const address of pods.flatMap((pod) => pod.addresses)) {
        if (!before.has(address)) before.set(address, this.#podCounts.has(address));
        this.#count(address, by);
      }
    };
    count(removed, -1);
    count(added, 1);
    if (this.#strayCounts.size !== strays) this.#inside = { ...this.#inside, leftOut: this.#leftOut() };
    const changed = [...before].filter(([address, was]) => this.#podCounts.has(address) !== was);
    if (changed.length === 0) return;
    const gone = changed.filter(([, was]) => was).map(([address]) => address);
    const come = changed.filter(([, was]) => !was).map(([address]) => address);
    this.#inside = { ...this.#inside, members: changeAddresses(this.#inside.members, gone, come) };
  }

  #count(text: string, by: number): void {
    const address = parseAddress(text);
    if (address === null || hasInterval(this.#static[address.family], address.value)) return;
    const counts = this.#isCredible(text) ? this.#podCounts : this.#strayCounts;
    const count = (counts.get(text) ?? 0) + by;
    if (count > 0) counts.set(text, count);
    else counts.delete(text);
  }

  #leftOut(): ReadonlySet<string> {
    return new Set([...this.#strayNetworks, ...this.#strayCounts.keys()]);
  }
}

const NO_INTERVALS: Intervals = { 4: [], 6: [] };

function hostCidr(text: string): Cidr | null {
  const address = parseAddress(text);
  return address === null ? null : { ...address, length: BITS[address.family] };
}

/**
 * The pod that has an address of several: those of the Node whose pod network has it go
 * first, as another Node's kubelet may say what it likes of its pods; then by namespace and name.
 */
export function holderOf(pods: readonly Pod[], text: string, { networksOf }: Inside): Pod | undefined {
  if (pods.length < 2) return pods[0];
  const address = parseAddress(text);
  const isHome = ({ node = '' }: Pod): boolean =>
    address !== null && hasInterval(networksOf.get(node)?.[address.family] ?? [], address.value);
  return pods.toSorted((a, b) => Number(isHome(b)) - Number(isHome(a)) || comparePods(a, b))[0];
}

/** Whether the address is in the pod network of a Node. */
export function isPodAddress({ podNetworks }: Inside, text: string): boolean {
  return isAddressIn(podNetworks, text);
}

/** Whether an address that nobody has, and no pod network of a Node, is taken for a pod's. */
export function isLikelyPod({ likelyPods }: Inside, text: string): boolean {
  return isAddressIn(likelyPods, text);
}

/** Loopback, link-local, multicast and broadcast. */
export const ALWAYS_INSIDE = [
  '127.0.0.0/8',
  '169.254.0.0/16',
  '224.0.0.0/4',
  '255.255.255.255/32',
  '::1/128',
  'fe80::/10',
  'ff00::/8',
];

/** The part of the configuration that names the cluster's networks. */
export type NetworksConfig = Pick<EgressConfig, 'inside' | 'serviceCIDRs' | 'podCIDRs'> & {
  /** Networks of Nodes; absent: none are named. */
  readonly nodeCIDRs?: readonly string[];
};

/** The networks that are inside whatever Nodes and pods say: not theirs, and not pools. */
function namedNetworks(
  networks: readonly InsideNetworks[],
  { inside, serviceCIDRs, podCIDRs }: NetworksConfig,
): string[] {
  const services = networks.some(({ kind }) => kind === 'ServiceCIDR') ? [] : serviceCIDRs;
  return [...ALWAYS_INSIDE, ...inside, ...podCIDRs, ...services, ...networks.flatMap(({ cidrs }) => cidrs)];
}

/**
 * Where an address is a pod's, for all that Nodes do not say: the pod networks of the configuration
 * and of IP pools; where `nodesSay` nothing either, private addresses.
 */
function likelyPodNetworks(
  networks: readonly InsideNetworks[],
  { podCIDRs }: NetworksConfig,
  nodesSay: boolean,
): readonly string[] {
  const named = [...podCIDRs, ...networks.flatMap(({ kind, cidrs }) => (kind === 'IPPool' ? cidrs : []))];
  return named.length > 0 || nodesSay ? named : PRIVATE_NETWORKS;
}

/**
 * Whether what a Node or a pod says of itself (podCIDRs, pods' and reported addresses) counts as
 * inside: a kubelet must not take a destination on the Internet out of all policies.
 */
export function credible(
  networks: readonly InsideNetworks[],
  config: NetworksConfig,
): (said: Pick<OwnedRange, 'family' | 'range'>) => boolean {
  const cidrs = [
    ...namedNetworks(networks, config),
    ...(config.nodeCIDRs ?? []),
    ...(config.podCIDRs.length === 0 ? PRIVATE_NETWORKS : []),
  ];
  const union = new AddressUnion(cidrs.flatMap((text) => ownedRange(text, text)));
  return ({ family, range }) => union.covers(family, range);
}
