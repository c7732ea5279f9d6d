import type { Node, Pod } from '../../apis/objects.ts';
import { keyIndex } from '../index/key-index.ts';
import { formatRequirements, type Requirements } from '../index/selector.ts';
import { type SelectorIndex, selectorIndex } from '../index/selector-index.ts';
import { formatName } from '../index/service-index.ts';
import { type CanonicalPeers, type ClusterIndexes, selectsHolder } from './address-set.ts';

/** Finds the peers that select a Node or Pod, so that its event affects only those. */
export interface PeerIndex {
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

export function peerIndex(all: Iterable<CanonicalPeers>): PeerIndex {
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
