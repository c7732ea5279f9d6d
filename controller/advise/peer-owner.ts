import type { NodeFlow } from '../../apis/node-flows.ts';
import type { ClusterObjects, EndpointSlice, Labels, NamespacedName, Node, Pod } from '../../apis/objects.ts';
import {
  type Address,
  BITS,
  type Cidr,
  covers,
  formatAddress,
  formatCidr,
  parseAddress,
  parseCidr,
} from '../../lib/net/address.ts';
import { compareText } from '../../lib/sharing/lists.ts';
import { PodNetworks } from '../index/accepted-addresses.ts';
import { formatName } from '../index/name-index.ts';
import { ObjectIndex } from '../index/object-index.ts';
import type { SeenService } from './seen-service.ts';

/** The other end of flows, as a policy can name it. Owners with one key are the same. */
export type Owner = { readonly key: string; readonly text: string } & (
  | { readonly kind: 'node'; readonly node: Node }
  | { readonly kind: 'pods'; readonly shape: PodShape }
  /** Ready endpoints of a Service; egress only. */
  | { readonly kind: 'service'; readonly service: NamespacedName }
  /** An address of the pods' networks that no pod has now. */
  | { readonly kind: 'gone-pod'; readonly cidr: Cidr }
  /** Any pod: a network of pods, all of which were seen together. */
  | { readonly kind: 'all-pods' }
  /** An address, a network, or all addresses of a family. */
  | { readonly kind: 'block'; readonly cidr: Cidr }
);

/** Pods of one namespace that no lasting label tells apart: those of one workload. */
export interface PodShape {
  readonly key: string;
  readonly namespace: string;
  /** Labels that stay when the pods are replaced, by key. */
  readonly labels: Labels;
  readonly serviceAccount: string;
  /** Their addresses, of all of them. */
  readonly addresses: readonly string[];
}

/**
 * Labels that controllers give to single pods, or that change with each version: a policy that
 * selects by them selects nothing tomorrow. ReplicaSet, DaemonSet, StatefulSet, Job, Argo Rollouts,
 * Helm; see kubernetes.io/docs/reference/labels-annotations-taints.
 */
const PASSING =
  /(^|[./-])(hash|uid|generation|revision|revision-hash|job-name|pod-name|pod-index|job-completion-index|version|chart)$/;

/** The blocks in which CNIs hand out addresses to nodes, at least (Calico: /26 and /122). */
const BLOCK = { 4: 26, 6: 122 } as const;

type Objects = Pick<ClusterObjects, 'nodes' | 'namespaces' | 'pods' | 'endpointSlices'>;

/**
 * Finds the owners of addresses. A Node comes before the pods and Services that have its address;
 * for egress, a Service comes before the pods behind it. Costs a pass over the objects, and then a
 * look-up for each address.
 */
export class PeerOwners {
  /** By key, and by name. */
  readonly shapes = new Map<string, PodShape & { readonly addresses: string[] }>();
  readonly nodes: ReadonlyMap<string, Node>;
  readonly #shapeOf = new Map<Node | Pod, PodShape>();
  readonly #index: ObjectIndex;
  /** By `ADDRESS PROTOCOL PORT`. */
  readonly #endpoints: ReadonlyMap<string, EndpointSlice>;
  readonly #podNetworks = new PodNetworks();
  readonly #podBlocks = new Set<string>();
  readonly #podsGroups: readonly unknown[];

  /** @param podsGroup the number of the link group of pods' interfaces */
  constructor(objects: Objects, podsGroup: number) {
    this.#index = new ObjectIndex(objects);
    this.#endpoints = endpointsOf(objects.endpointSlices);
    this.#podNetworks.change({ removed: [], added: objects.nodes });
    this.nodes = new Map(objects.nodes.map((node) => [node.name, node]));
    for (const pod of objects.pods) this.#addPod(pod);
    this.#podsGroups = ['pods', podsGroup];
  }

  #addPod(pod: Pod): void {
    const { namespace, serviceAccount, addresses } = pod;
    if (addresses.length === 0) return;
    const lasting = Object.entries(pod.labels).filter(([key]) => !PASSING.test(key));
    const labels = Object.fromEntries(lasting.sort(([a], [b]) => (a < b ? -1 : 1)));
    const key = `pods ${JSON.stringify([namespace, serviceAccount, labels])}`;
    const shape = this.shapes.get(key) ?? { key, namespace, serviceAccount, labels, addresses: [] };
    shape.addresses.push(...addresses);
    this.shapes.set(key, shape);
    this.#shapeOf.set(pod, shape);
    for (const text of addresses) this.#podBlocks.add(podBlock(parseAddress(text)));
  }

  /** The owner of a kind's peer, which is valid. */
  ownerOf({ peer, interfaceGroup }: NodeFlow, { direction, protocol, port }: SeenService): Owner {
    const owner = this.#find(peer, this.#podsGroups.includes(interfaceGroup));
    const of = direction === 'egress' ? this.#endpoints.get(`${peer} ${protocol} ${port}`) : undefined;
    const isOfService = owner.kind === 'pods' || (of?.isTrusted === true && owner.kind !== 'node');
    if (of === undefined || !isOfService) return owner;
    const service = { namespace: of.namespace, name: of.service };
    const text = `Service ${formatName(service)}`;
    return { kind: 'service', key: text, text, service };
  }

  #find(peer: string, isOfPods: boolean): Owner {
    const address = parseAddress(peer);
    const cidr = address === null ? parseCidr(peer)?.cidr : { ...address, length: BITS[address.family] };
    if (cidr === undefined) throw new TypeError(`${peer} is no network`);
    const pods = this.#podNetworkOf(cidr);
    if (address === null)
      return isOfPods || (pods !== null && covers(pods.cidr, cidr)) ? ALL_PODS : blockOwner(cidr);
    const text = formatAddress(address);
    const holders = [...this.#index.holders(text)];
    const node = holders.find((holder) => holder.kind === 'Node');
    if (node !== undefined) return nodeOwner(node);
    const [shape] = holders.flatMap((holder) => this.#shapeOf.get(holder) ?? []);
    if (shape !== undefined) return { kind: 'pods', key: shape.key, text: shapeText(shape), shape };
    // The network's own address is the tunnel's (flannel), the first one the bridge's.
    if (pods !== null && address.value - pods.cidr.value <= 1n) return nodeOwner(pods.node);
    if (pods !== null || isOfPods || this.#podBlocks.has(podBlock(address)))
      return { kind: 'gone-pod', key: `gone ${text}`, text, cidr };
    return blockOwner(cidr);
  }

  #podNetworkOf(address: Address): { readonly cidr: Cidr; readonly node: Node } | null {
    const [name = ''] = this.#podNetworks.of(address);
    const node = this.nodes.get(name);
    const single = { ...address, length: BITS[address.family] };
    const cidr = node?.podCIDRs
      ?.flatMap((text) => parseCidr(text)?.cidr ?? [])
      .find((one) => covers(one, single));
    return node === undefined || cidr === undefined ? null : { cidr, node };
  }
}

const ALL_PODS: Owner = { kind: 'all-pods', key: 'pods', text: 'pods' };

function blockOwner(cidr: Cidr): Owner {
  const text = formatCidr(cidr);
  return { kind: 'block', key: text, text, cidr };
}

function nodeOwner(node: Node): Owner {
  const text = `Node ${node.name}`;
  return { kind: 'node', key: text, text, node };
}

function shapeText({ namespace, labels, serviceAccount }: PodShape): string {
  const [first] = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  return `pods ${namespace}/${first ?? serviceAccount}`;
}

/** Whether one peer is behind it. */
export function isSinglePeer(owner: Owner): boolean {
  if ('cidr' in owner) return owner.cidr.length === BITS[owner.cidr.family];
  return owner.kind === 'node' || owner.kind === 'pods';
}

/** By level: addresses, the networks that agents fold them to, and all. */
const LENGTHS = [BITS, { 4: 24, 6: 64 }, { 4: 0, 6: 0 }] as const;

/** The block that stands for an address or network where there are too many. */
export function widened(owner: Owner, level: 0 | 1 | 2): Owner {
  if (!('cidr' in owner) || owner.cidr.length <= LENGTHS[level][owner.cidr.family]) return owner;
  const wide = parseCidr(`${formatAddress(owner.cidr)}/${LENGTHS[level][owner.cidr.family]}`);
  return wide === null ? owner : blockOwner(wide.cidr);
}

function podBlock(address: Address | null): string {
  if (address === null) return '';
  return `${address.family} ${address.value >> BigInt(BITS[address.family] - BLOCK[address.family])}`;
}

/** The Services of endpoints: of several the one with the fewest, then the first by name. */
function endpointsOf(slices: readonly EndpointSlice[]): Map<string, EndpointSlice> {
  const nameOf = ({ namespace, service: name }: EndpointSlice): string => formatName({ namespace, name });
  const sizes = new Map(
    [...Map.groupBy(slices, nameOf)].map(([name, own]) => [name, own.flatMap((one) => one.addresses).length]),
  );
  const sizeOf = (slice: EndpointSlice): number => sizes.get(nameOf(slice)) ?? 0;
  const found = new Map<string, EndpointSlice>();
  const last = (a: EndpointSlice, b: EndpointSlice) =>
    sizeOf(b) - sizeOf(a) || compareText(nameOf(b), nameOf(a));
  for (const slice of slices.toSorted(last))
    for (const { protocol, port } of slice.ports)
      for (const address of slice.addresses) found.set(`${address} ${protocol.toLowerCase()} ${port}`, slice);
  return found;
}
