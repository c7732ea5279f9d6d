import type { NodeFlow } from '../../apis/node-flows.ts';
import type { ClusterObjects, EndpointSlice, NamespacedName, Node } from '../../apis/objects.ts';
import {
  type Address,
  BITS,
  type Cidr,
  covers,
  type Family,
  formatAddress,
  formatCidr,
  parseAddress,
  parseCidr,
} from '../../lib/net/address.ts';
import { ObjectIndex } from '../index/object-index.ts';
import { formatName } from '../index/service-index.ts';
import { type PodShape, podShapes } from './pod-shape.ts';
import type { SeenService } from './seen-service.ts';

/** The other end of flows, as a policy can name it. */
export type Owner =
  | { readonly kind: 'node'; readonly key: string; readonly node: Node }
  | { readonly kind: 'pods'; readonly key: string; readonly shape: PodShape }
  /** Ready endpoints of a Service; egress only. */
  | { readonly kind: 'service'; readonly key: string; readonly service: NamespacedName }
  /** An address of the pods' networks that no pod has now. */
  | { readonly kind: 'gone-pod'; readonly key: string; readonly address: Address }
  /** Any pod: a network of pods, all of which were seen together. */
  | { readonly kind: 'all-pods'; readonly key: string }
  | { readonly kind: 'address'; readonly key: string; readonly address: Address }
  | { readonly kind: 'network'; readonly key: string; readonly cidr: Cidr }
  /** Addresses of the whole family. */
  | { readonly kind: 'any'; readonly key: string; readonly family: Family };

type Objects = Pick<ClusterObjects, 'nodes' | 'namespaces' | 'pods' | 'endpointSlices'>;

/** The blocks in which CNIs hand out addresses to nodes, at least (Calico: /26 and /122). */
const BLOCK = { 4: 26, 6: 122 } as const;

/**
 * Finds the owners of addresses. A Node comes before the pods and Services that have its address;
 * for egress, a Service comes before the pods behind it. Costs a pass over the objects, and then a
 * look-up for each address.
 */
export class PeerOwners {
  readonly #index: ObjectIndex;
  readonly #shapes: ReturnType<typeof podShapes>;
  /** By `ADDRESS PROTOCOL PORT`. */
  readonly #endpoints: ReadonlyMap<string, EndpointOwner>;
  /** By prefix length, then by the key of the network: there are few lengths. */
  readonly #podNetworks = new Map<string, Map<string, { readonly cidr: Cidr; readonly node: Node }>>();
  readonly #podBlocks = new Set<string>();
  readonly #podsGroups: readonly unknown[];
  /** Owners of addresses that were asked about, without their services. */
  readonly #known = new Map<string, Owner>();

  /** @param podsGroup the number of the link group of pods' interfaces */
  constructor(objects: Objects, podsGroup: number) {
    this.#index = new ObjectIndex(objects);
    this.#shapes = podShapes(objects.pods);
    this.#endpoints = endpointsOf(objects.endpointSlices);
    for (const node of objects.nodes) for (const text of node.podCIDRs ?? []) this.#addPodNetwork(text, node);
    for (const { addresses } of objects.pods) {
      for (const text of addresses) {
        const address = parseAddress(text);
        if (address !== null) this.#podBlocks.add(prefixKey(address, BLOCK[address.family]));
      }
    }
    this.#podsGroups = ['pods', podsGroup];
  }

  get shapes(): ReadonlyMap<string, PodShape> {
    return this.#shapes.shapes;
  }

  /** The owner of a kind's peer, which is valid. */
  ownerOf({ peer, interfaceGroup }: NodeFlow, service: SeenService | null): Owner {
    const isOfPods = this.#podsGroups.includes(interfaceGroup);
    const key = `${peer} ${isOfPods}`;
    let owner = this.#known.get(key);
    if (owner === undefined) {
      owner = this.#find(peer, isOfPods);
      // Addresses of others are as many as there are; the rest is bounded by the cluster's objects.
      if (owner.kind === 'node' || owner.kind === 'pods') this.#known.set(key, owner);
    }
    if (service?.direction !== 'egress' || owner.kind === 'node') return owner;
    const of = this.#endpoints.get(`${peer} ${service.protocol} ${service.port}`);
    if (of === undefined || (owner.kind !== 'pods' && !of.isTrusted)) return owner;
    return { kind: 'service', key: `service ${formatName(of.service)}`, service: of.service };
  }

  #find(peer: string, isOfPods: boolean): Owner {
    const address = parseAddress(peer);
    if (address === null) return this.#network(peer, isOfPods);
    const holders = [...this.#index.holders(formatAddress(address))];
    for (const holder of holders) if (holder.kind === 'Node') return nodeOwner(holder);
    for (const holder of holders) {
      const shape = holder.kind === 'Pod' ? this.shapes.get(this.#shapes.keyOf(holder)) : undefined;
      if (shape !== undefined) return { kind: 'pods', key: `pods ${shape.key}`, shape };
    }
    const network = this.#podNetworkOf(address);
    // The network's own address is the tunnel's (flannel), the first one the bridge's.
    if (network !== null && address.value - network.cidr.value <= 1n) return nodeOwner(network.node);
    if (network !== null || isOfPods || this.#podBlocks.has(prefixKey(address, BLOCK[address.family])))
      return { kind: 'gone-pod', key: `gone ${peer}`, address };
    return { kind: 'address', key: peer, address };
  }

  #network(peer: string, isOfPods: boolean): Owner {
    const cidr = parseCidr(peer)?.cidr;
    if (cidr === undefined) throw new TypeError(`${peer} is no network`);
    const { family } = cidr;
    const pods = this.#podNetworkOf(cidr)?.cidr ?? null;
    if (isOfPods || (pods !== null && covers(pods, cidr))) return { kind: 'all-pods', key: 'all pods' };
    if (cidr.length === 0) return anyOwner(family);
    return { kind: 'network', key: formatCidr(cidr), cidr };
  }

  #addPodNetwork(text: string, node: Node): void {
    const cidr = parseCidr(text)?.cidr;
    if (cidr === undefined) return;
    const length = `${cidr.family}/${cidr.length}`;
    const networks = this.#podNetworks.get(length) ?? new Map();
    this.#podNetworks.set(length, networks.set(prefixKey(cidr, cidr.length), { cidr, node }));
  }

  #podNetworkOf(address: Address): { readonly cidr: Cidr; readonly node: Node } | null {
    for (const [key, networks] of this.#podNetworks) {
      const [family, length] = key.split('/').map(Number);
      if (family !== address.family) continue;
      const found = networks.get(prefixKey(address, length ?? 0));
      if (found !== undefined) return found;
    }
    return null;
  }
}

export function anyOwner(family: Family): Owner {
  return { kind: 'any', key: `any ${family}`, family };
}

/** The network that stands for an address when there are too many (as agents fold them). */
const NETWORK = { 4: 24, 6: 64 } as const;

export function networkOwner({ family, value }: Address): Owner {
  const length = NETWORK[family];
  const free = BigInt(BITS[family] - length);
  const cidr = { family, value: (value >> free) << free, length };
  return { kind: 'network', key: formatCidr(cidr), cidr };
}

function nodeOwner(node: Node): Owner {
  return { kind: 'node', key: `node ${node.name}`, node };
}

function prefixKey({ family, value }: Address, length: number): string {
  return `${family} ${value >> BigInt(BITS[family] - length)}`;
}

/**
 * The Service of an endpoint: of several the one with the fewest endpoints, then the first by name.
 */
interface EndpointOwner {
  readonly service: NamespacedName;
  /** Whether it counts without a pod. */
  readonly isTrusted: boolean;
}

function endpointsOf(slices: readonly EndpointSlice[]): Map<string, EndpointOwner> {
  const sizes = new Map<string, number>();
  for (const { namespace, service, addresses } of slices) {
    const name = formatName({ namespace, name: service });
    sizes.set(name, (sizes.get(name) ?? 0) + addresses.length);
  }
  const sizeOf = (slice: EndpointSlice) => sizes.get(nameOf(slice)) ?? 0;
  const nameOf = ({ namespace, service }: EndpointSlice) => formatName({ namespace, name: service });
  const bySize = [...slices].sort((a, b) => sizeOf(a) - sizeOf(b) || (nameOf(a) < nameOf(b) ? -1 : 1));
  const found = new Map<string, EndpointOwner>();
  for (const { namespace, service: name, addresses, ports, isTrusted = false } of bySize) {
    for (const { protocol, port } of ports) {
      for (const address of addresses) {
        const key = `${address} ${protocol.toLowerCase()} ${port}`;
        if (!found.has(key)) found.set(key, { service: { namespace, name }, isTrusted });
      }
    }
  }
  return found;
}

/** For a person: `Node a`, `pods of shop/app=web`, an address. */
export function ownerText(owner: Owner): string {
  switch (owner.kind) {
    case 'node':
      return `Node ${owner.node.name}`;
    case 'pods': {
      const { namespace, labels, serviceAccount } = owner.shape;
      const [first] = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
      return `pods ${namespace}/${first ?? serviceAccount}`;
    }
    case 'service':
      return `Service ${formatName(owner.service)}`;
    case 'all-pods':
      return 'pods';
    case 'any':
      return owner.family === 4 ? '0.0.0.0/0' : '::/0';
    case 'gone-pod':
    case 'address':
      return formatAddress(owner.address);
    case 'network':
      return formatCidr(owner.cidr);
  }
}
