import { type ClusterObjects, NO_OBJECTS, type Node, type Pod, type Service } from '../../apis/objects.ts';
import { type Address, BITS, type Family, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { hasMember, type MemberSet, toMemberSet } from '../../lib/net/member-set.ts';
import { listChange } from '../../lib/sharing/lists.ts';
import { present } from '../../lib/sharing/present.ts';

type Objects = Pick<ClusterObjects, 'nodes' | 'pods' | 'services' | 'insideNetworks'>;

/** The parts of the configuration that say which addresses are whose. */
export interface AddressOwnership {
  /** Not empty: they decide. */
  readonly nodeCIDRs?: readonly string[] | undefined;
  /** Networks of pods (`egress.podCIDRs`). */
  readonly podCIDRs?: readonly string[] | undefined;
}

/** The most addresses that a Node's object keeps as refused. */
const MOST_REFUSED = 64;

/**
 * Refuses addresses of Node objects (status and annotation) that something else has, over
 * successive states of the objects: a kubelet writes its Node's addresses itself, and pods may send
 * nothing with a Node's address. Refused (`Node.claimedAddresses`) is an address
 * - in the network of another Node's pods (spec.podCIDRs),
 * - of a pod with an address of its own, if it lies in the network of any Node's pods, in an IP
 *   pool, in podCIDRs of the configuration, or if no Node has such a network: a kubelet writes its
 *   pods' addresses too,
 * - of a Service (clusterIPs; whoever may create a Service chooses the others).
 * With nodeCIDRs in the configuration these decide, and nothing is refused here.
 *
 * A change costs the changed objects, a pass over pods and Services where a Node has a new address,
 * and a pass over the Nodes where a network changes.
 */
export class AcceptedAddresses {
  readonly #isOn: boolean;
  #objects: Objects = NO_OBJECTS;
  /** `nodes` as last returned. */
  #nodes: readonly Node[] = NO_OBJECTS.nodes;
  readonly #byName = new Map<string, Node>();
  /** The names of the Nodes whose objects have an address. */
  readonly #claimants = new Map<string, Set<string>>();
  /** The pods and Services with an address that a Node's object has. */
  readonly #holders = new Map<string, Set<Pod | Service>>();
  readonly #networks = new PodNetworks();
  readonly #podCIDRs: readonly string[];
  /** The networks of pods that no Node names. */
  #pools: MemberSet;
  /** The Nodes with refused addresses: the object as read, and as returned. */
  readonly #changed = new Map<string, { readonly node: Node; readonly accepted: Node }>();

  constructor({ nodeCIDRs = [], podCIDRs = [] }: AddressOwnership = {}) {
    this.#isOn = nodeCIDRs.length === 0;
    this.#podCIDRs = podCIDRs;
    this.#pools = toPools(podCIDRs, []);
  }

  /** Advances to this state, and returns it with the addresses that are accepted. */
  advance<T extends Objects>(objects: T): T {
    if (!this.#isOn) return objects;
    const stale = this.#follow(objects);
    let isSame = objects.nodes === this.#objects.nodes;
    for (const name of stale) isSame = !this.#settle(name) && isSame;
    this.#objects = objects;
    if (!isSame) {
      const nodes = objects.nodes.map((node) => this.#changed.get(node.name)?.accepted ?? node);
      this.#nodes = this.#changed.size === 0 ? objects.nodes : nodes;
    }
    return this.#nodes === objects.nodes ? objects : { ...objects, nodes: this.#nodes };
  }

  /** The Nodes that may have other accepted addresses now. */
  #follow({ nodes, pods, services, insideNetworks }: Objects): Set<string> {
    const before = this.#objects;
    const changed = listChange(before.nodes, nodes);
    const stale = new Set([...changed.removed, ...changed.added].map(({ name }) => name));
    for (const node of changed.removed) this.#remove(node);
    const fresh = new Set<string>();
    for (const node of changed.added) {
      this.#byName.set(node.name, node);
      for (const address of node.addresses) {
        const claimants = this.#claimants.get(address) ?? new Set();
        if (claimants.size === 0) fresh.add(address);
        this.#claimants.set(address, claimants.add(node.name));
      }
    }
    if (this.#networks.change(changed)) for (const { name } of nodes) stale.add(name);
    if (insideNetworks !== before.insideNetworks) {
      this.#pools = toPools(this.#podCIDRs, insideNetworks);
      for (const { name } of nodes) stale.add(name);
    }
    const others = [listChange<Pod | Service>(before.pods, pods), listChange(before.services, services)];
    for (const { removed, added } of others) {
      for (const one of removed) this.#hold(one, stale, (holders) => holders.delete(one));
      for (const one of added) this.#hold(one, stale, (holders) => holders.add(one));
    }
    const isFresh = (address: string): boolean => fresh.has(address);
    for (const one of fresh.size === 0 ? [] : [...pods, ...services])
      if (addressesOf(one).some(isFresh)) this.#hold(one, stale, (holders) => holders.add(one));
    return stale;
  }

  #remove(node: Node): void {
    this.#byName.delete(node.name);
    for (const address of node.addresses) {
      const claimants = this.#claimants.get(address);
      claimants?.delete(node.name);
      if (claimants?.size !== 0) continue;
      this.#claimants.delete(address);
      this.#holders.delete(address);
    }
  }

  /** Changes the holders of the addresses that Nodes have. */
  #hold(one: Pod | Service, stale: Set<string>, change: (holders: Set<Pod | Service>) => void): void {
    for (const address of addressesOf(one)) {
      const claimants = this.#claimants.get(address);
      if (claimants === undefined) continue;
      const holders = this.#holders.get(address) ?? new Set();
      change(holders);
      if (holders.size === 0) this.#holders.delete(address);
      else this.#holders.set(address, holders);
      for (const name of claimants) stale.add(name);
    }
  }

  /** The other holder of the address of a Node's object, as text; null: none that counts. */
  #otherHolder(text: string, node: string): string | null {
    const address = parseAddress(text);
    if (address === null) return null;
    const holders = [...(this.#holders.get(text) ?? [])];
    const networks = this.#networks.of(address);
    const counts = (one: Pod | Service): boolean =>
      one.kind === 'Service' ||
      this.#networks.areNone ||
      networks.length > 0 ||
      hasMember(this.#pools, address);
    const [first] = holders
      .filter(counts)
      .map(({ kind, namespace, name }) => `${kind} ${namespace}/${name}`)
      .sort();
    if (first !== undefined) return first;
    const other = networks.filter((name) => name !== node).sort()[0];
    return other === undefined ? null : `the pod network of Node ${other}`;
  }

  /** Returns whether the returned object changes. */
  #settle(name: string): boolean {
    const before = this.#changed.get(name);
    const node = this.#byName.get(name);
    const refused = new Map<string, string>();
    for (const address of node?.addresses ?? []) {
      const holder = this.#otherHolder(address, name);
      if (holder !== null) refused.set(address, holder);
    }
    if (node === undefined || refused.size === 0) return this.#changed.delete(name);
    const claimedAddresses = [...refused]
      .slice(0, MOST_REFUSED)
      .map(([address, holder]) => `${address} (${holder})`);
    if (node === before?.node && claimedAddresses.join() === before.accepted.claimedAddresses?.join())
      return false;
    const isAccepted = (address: string): boolean => !refused.has(address);
    const internal = node.internalAddresses?.filter(isAccepted);
    const accepted: Node = {
      ...node,
      addresses: node.addresses.filter(isAccepted),
      claimedAddresses,
      ...present({ internalAddresses: internal }),
    };
    this.#changed.set(name, { node, accepted });
    return true;
  }
}

/** The one-time form. */
export function withAcceptedAddresses<T extends Objects>(objects: T, ownership?: AddressOwnership): T {
  return new AcceptedAddresses(ownership).advance(objects);
}

function toPools(podCIDRs: readonly string[], networks: Objects['insideNetworks']): MemberSet {
  const pools = networks.flatMap(({ kind, cidrs }) => (kind === 'IPPool' ? cidrs : []));
  const blocks = [...podCIDRs, ...pools].flatMap((text) => {
    const cidr = parseCidr(text)?.cidr;
    return cidr === undefined ? [] : [{ cidr, except: [] }];
  });
  return toMemberSet(blocks, []);
}

/** Why a Node's addresses do not count. */
export function claimedText(claimed: readonly string[]): string {
  return (
    `not addresses of the Node, and left out: ${claimed.join(', ')}; set nodeCIDRs in the configuration ` +
    'if they are'
  );
}

function addressesOf(one: Pod | Service): readonly string[] {
  return one.kind === 'Pod' ? one.addresses : one.clusterIPs;
}

/**
 * The widest networks that count as those of a Node's pods. A wider one would take their addresses
 * from other Nodes.
 */
const WIDEST = { 4: 16, 6: 40 } as const;
/** The networks of the Nodes' pods: which Nodes have one with an address. */
export class PodNetworks {
  /** By family, length and prefix: the names of Nodes. */
  readonly #names: Readonly<Record<Family, Map<number, Map<bigint, Set<string>>>>> = {
    4: new Map(),
    6: new Map(),
  };

  get areNone(): boolean {
    return this.#names[4].size === 0 && this.#names[6].size === 0;
  }

  /** Returns whether a network was added or removed. */
  change({
    removed,
    added,
  }: {
    readonly removed: readonly Node[];
    readonly added: readonly Node[];
  }): boolean {
    const texts = (nodes: readonly Node[]): string[] =>
      nodes.flatMap(({ name, podCIDRs = [] }) => podCIDRs.map((cidr) => `${cidr} ${name}`)).sort();
    if (texts(removed).join() === texts(added).join()) return false;
    for (const node of removed) this.#each(node, (names) => names.delete(node.name));
    for (const node of added) this.#each(node, (names) => names.add(node.name));
    return true;
  }

  of({ family, value }: Address): string[] {
    return [...this.#names[family]].flatMap(([length, byPrefix]) => [
      ...(byPrefix.get(prefixOf(family, value, length)) ?? []),
    ]);
  }

  #each({ podCIDRs = [] }: Node, change: (names: Set<string>) => void): void {
    for (const text of podCIDRs) {
      const cidr = parseCidr(text)?.cidr;
      if (cidr === undefined || cidr.length < WIDEST[cidr.family]) continue;
      const { family, value, length } = cidr;
      const byPrefix = this.#names[family].get(length) ?? new Map<bigint, Set<string>>();
      const prefix = prefixOf(family, value, length);
      const names = byPrefix.get(prefix) ?? new Set();
      change(names);
      if (names.size === 0) byPrefix.delete(prefix);
      else byPrefix.set(prefix, names);
      if (byPrefix.size === 0) this.#names[family].delete(length);
      else this.#names[family].set(length, byPrefix);
    }
  }
}

function prefixOf(family: Family, value: bigint, length: number): bigint {
  return value >> BigInt(BITS[family] - length);
}
