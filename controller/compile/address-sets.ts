import type { AddressSet } from '../../apis/compiled.ts';
import type { Node, Pod } from '../../apis/objects.ts';
import { changeAddresses, hasAddress, sameMembers } from '../../lib/net/member-set.ts';
import { changedMap } from '../../lib/sharing/changed-map.ts';
import type { ListChange } from '../../lib/sharing/lists.ts';
import { keyIndex } from '../index/key-index.ts';
import { formatName } from '../index/name-index.ts';
import { addressesOf, type Holder, type IndexChange } from '../index/object-index.ts';
import {
  formatRequirements,
  type Requirements,
  type SelectorIndex,
  selectorIndex,
} from '../index/selector.ts';
import { type CanonicalPeers, type ClusterIndexes, resolve, selectsHolder } from './address-set.ts';

interface Step {
  readonly wanted: ListChange<CanonicalPeers>;
  readonly change: IndexChange;
  readonly losses: Losses;
  readonly services: ReadonlySet<string>;
}

/**
 * The addresses of removed Nodes and Pods, by the peers that selected them; null if so much changes
 * that all members are resolved again.
 */
type Losses = ReadonlyMap<CanonicalPeers, ReadonlySet<string>> | null;

/**
 * Limits on following changes one by one, as a number of changed Nodes and Pods and as a share of
 * all; above the larger one, resolving all members again is faster.
 */
const FEW = { holders: 16, share: 1 / 8 };

/** The AddressSets of the current rules, maintained over successive states of the objects. */
export class AddressSets {
  readonly #world: ClusterIndexes;
  /**
   * The peers of current rules, by id, in the order of their first use. `#followed` indexes the
   * same objects.
   */
  readonly #wanted = new Map<string, CanonicalPeers>();
  #followed: PeerIndex | null = null;
  #sets: ReadonlyMap<string, AddressSet> = new Map();
  #holders = 0;

  constructor(world: ClusterIndexes) {
    this.#world = world;
  }

  /**
   * The members that the sets may lose by the change. Must be called before the index advances to
   * the next state.
   */
  losses(change: IndexChange): Losses {
    const { nodes, pods, moved } = change;
    this.#holders += nodes.added.length + pods.added.length - nodes.removed.length - pods.removed.length;
    const removed = [...nodes.removed, ...pods.removed, ...moved];
    const count = removed.length + nodes.added.length + pods.added.length + moved.length;
    if (count > Math.max(FEW.holders, FEW.share * this.#holders)) return null;
    return this.#collect(removed);
  }

  /**
   * Updates the sets; must be called after the index has advanced. Returns them sorted by id: the
   * same map if every set is the same object, and the same set object if its members are unchanged.
   * `services` are the names of changed Services.
   */
  advance(step: Step): ReadonlyMap<string, AddressSet> {
    const { added, removed } = step.wanted;
    const left = new Set(removed);
    for (const peers of removed) {
      this.#wanted.delete(peers.id);
      this.#followed?.remove(peers);
    }
    if (step.services.size > 0) this.#followed ??= peerIndex(this.#wanted.values());
    const { losses } = step;
    const changed =
      losses === null
        ? [...this.#wanted.values()].flatMap((peers) => {
            const set = this.#sets.get(peers.id);
            const now = resolve(peers, this.#world);
            return set === undefined || kept(set, now) === set ? [] : now;
          })
        : this.#followedChanges({
            ...step,
            losses: new Map([...losses].filter(([peers]) => !left.has(peers))),
          });
    for (const peers of added) {
      this.#wanted.set(peers.id, peers);
      this.#followed?.add(peers);
      changed.push(resolve(peers, this.#world));
    }
    this.#sets = changedMap(this.#sets, { removed: removed.map(({ id }) => id), changed });
    return this.#sets;
  }

  /** Builds the indexes that the first change needs; otherwise the first change builds them. */
  prepare(): void {
    this.#followed ??= peerIndex(this.#wanted.values());
    this.#world.index.holders('');
  }

  #peersOf(holder: Holder): ReadonlySet<CanonicalPeers> {
    this.#followed ??= peerIndex(this.#wanted.values());
    return holder.kind === 'Node' ? this.#followed.ofNode(holder) : this.#followed.ofPod(holder, this.#world);
  }

  #collect(all: Iterable<Holder>): Map<CanonicalPeers, Set<string>> {
    const found = new Map<CanonicalPeers, Set<string>>();
    for (const holder of all) {
      const addresses = addressesOf(holder);
      if (addresses.length === 0) continue;
      for (const peers of this.#peersOf(holder)) {
        const listed = found.get(peers) ?? new Set();
        found.set(peers, listed);
        for (const address of addresses) listed.add(address);
      }
    }
    return found;
  }

  #followedChanges({
    change,
    losses,
    services,
  }: Step & { readonly losses: Map<CanonicalPeers, ReadonlySet<string>> }): AddressSet[] {
    const gains = this.#collect(addedBy(change));
    const lookedUp = new Set([...services].flatMap((name) => [...(this.#followed?.ofService(name) ?? [])]));
    const changed: AddressSet[] = [];
    for (const peers of new Set([...losses.keys(), ...gains.keys(), ...lookedUp])) {
      const set = this.#sets.get(peers.id);
      if (set === undefined) continue;
      const now = lookedUp.has(peers)
        ? kept(set, resolve(peers, this.#world))
        : withChange(
            set,
            peers,
            { lost: losses.get(peers) ?? NONE, gained: gains.get(peers) ?? NONE },
            this.#world,
          );
      if (now !== set) changed.push(now);
    }
    return changed;
  }
}

const NONE: ReadonlySet<string> = new Set();

function* addedBy({ nodes, pods, moved }: IndexChange): Iterable<Holder> {
  yield* nodes.added;
  yield* pods.added;
  yield* moved;
}

/**
 * The set with the added and without the removed addresses. An address stays if another object that
 * the peers select has it too, or a static block contains it.
 */
function withChange(
  set: AddressSet,
  peers: CanonicalPeers,
  { lost, gained }: { readonly lost: ReadonlySet<string>; readonly gained: ReadonlySet<string> },
  world: ClusterIndexes,
): AddressSet {
  const removed: string[] = [];
  for (const address of lost) {
    if (gained.has(address) || hasAddress(peers.fixed, address)) continue;
    if (!isHeld(address, peers, world)) removed.push(address);
  }
  const members = changeAddresses(set.members, removed, gained);
  const same = members.v4 === set.members.v4 && members.v6 === set.members.v6;
  return same ? set : { ...set, members };
}

function isHeld(address: string, peers: CanonicalPeers, world: ClusterIndexes): boolean {
  for (const holder of world.index.holders(address)) if (selectsHolder(peers, holder, world)) return true;
  return false;
}

function kept(old: AddressSet, set: AddressSet): AddressSet {
  const { v4, v6 } = set.members;
  return sameMembers(old.members.v4, v4) && sameMembers(old.members.v6, v6) ? old : set;
}

/** Finds the peers that select a Node or Pod, so that its event affects only those. */
interface PeerIndex {
  add(peers: CanonicalPeers): void;
  remove(peers: CanonicalPeers): void;
  ofNode(node: Node): ReadonlySet<CanonicalPeers>;
  ofPod(pod: Pod, world: ClusterIndexes): ReadonlySet<CanonicalPeers>;
  /** The peers that name the Service (as formatName writes it). */
  ofService(name: string): Iterable<CanonicalPeers>;
}

/** Selectors of pods, for the namespaces that one namespace selector selects. */
interface InNamespaces {
  readonly pods: SelectorIndex<CanonicalPeers>;
  readonly takeOut: () => void;
}

function peerIndex(all: Iterable<CanonicalPeers>): PeerIndex {
  const nodes = selectorIndex<CanonicalPeers>();
  const anywhere = selectorIndex<CanonicalPeers>();
  const byNamespaces = new Map<string, InNamespaces>();
  const namespaces = selectorIndex<InNamespaces>();
  const accounts = keyIndex<CanonicalPeers>([], accountsOf);
  const services = keyIndex<CanonicalPeers>([], servicesOf);
  const inNamespace = keyIndex<CanonicalPeers>([], (peers) => servicesOf(peers).map(namespaceOf));
  const takeOut = new Map<CanonicalPeers, readonly (() => void)[]>();

  function addPods(requirements: Requirements, namespace: Requirements, peers: CanonicalPeers): () => void {
    if (namespace.length === 0) return anywhere.add(requirements, peers);
    const key = formatRequirements(namespace);
    let there = byNamespaces.get(key);
    if (there === undefined) {
      const pods = selectorIndex<CanonicalPeers>();
      const made: InNamespaces = { pods, takeOut: () => out() };
      const out = namespaces.add(namespace, made);
      byNamespaces.set(key, made);
      there = made;
    }
    const { pods } = there;
    const out = pods.add(requirements, peers);
    return () => {
      out();
      if (pods.size > 0) return;
      byNamespaces.get(key)?.takeOut();
      byNamespaces.delete(key);
    };
  }

  function change(which: 'removed' | 'added', peers: CanonicalPeers): void {
    const one = { removed: [], added: [], [which]: [peers] };
    for (const index of [accounts, services, inNamespace]) index.change(one);
  }

  const index: PeerIndex = {
    add(peers) {
      change('added', peers);
      takeOut.set(
        peers,
        peers.selectors.flatMap((selector) => {
          if (selector.of === 'nodes') return nodes.add(selector.requirements, peers);
          if (selector.of === 'pods') return addPods(selector.requirements, selector.namespace, peers);
          // The key indexes have these.
          selector.of satisfies 'account' | 'controllers' | 'service';
          return [];
        }),
      );
    },
    remove(peers) {
      change('removed', peers);
      for (const out of takeOut.get(peers) ?? []) out();
      takeOut.delete(peers);
    },
    ofNode: (node) => new Set(nodes.matching(node.labels)),
    ofPod(pod, world) {
      const inAccount = accounts.get(`${pod.namespace}/${pod.serviceAccount}`);
      if (pod.hostNetwork === true)
        return new Set([...inAccount].filter((peers) => selectsHolder(peers, pod, world)));
      const found = new Set(anywhere.matching(pod.labels));
      if (namespaces.size > 0) {
        for (const { pods } of namespaces.matching(world.index.namespaceLabels(pod.namespace))) {
          for (const peers of pods.matching(pod.labels)) found.add(peers);
        }
      }
      for (const peers of inAccount) found.add(peers);
      for (const peers of inNamespace.get(pod.namespace)) {
        if (selectsHolder(peers, pod, world)) found.add(peers);
      }
      return found;
    },
    ofService: (name) => services.get(name),
  };
  for (const peers of all) index.add(peers);
  return index;
}

function accountsOf({ selectors }: CanonicalPeers): string[] {
  return selectors.flatMap((selector) => ('account' in selector ? formatName(selector.account) : []));
}

function servicesOf({ selectors }: CanonicalPeers): string[] {
  return selectors.flatMap((selector) => (selector.of === 'service' ? formatName(selector.service) : []));
}

function namespaceOf(name: string): string {
  return name.slice(0, name.indexOf('/'));
}
