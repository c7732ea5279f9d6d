import type { AddressSet } from '../../apis/compiled.ts';
import type { NamespacedName } from '../../apis/objects.ts';
import { type Cidr, parseCidr } from '../../lib/net/address.ts';
import {
  addAddresses,
  type CidrBlock,
  formatMembers,
  type MemberSet,
  NO_MEMBERS,
  toMemberSet,
} from '../../lib/net/member-set.ts';
import { shortHash } from '../../lib/sharing/hash.ts';
import { addressesOf, type Holder, type ObjectIndex } from '../index/object-index.ts';
import { allHold, canonicalRequirements, formatRequirements, type Requirements } from '../index/selector.ts';
import { formatName, type ServiceIndex } from '../index/service-index.ts';
import type { AddressPeer } from './peers.ts';

/** A rule's peers in canonical form: peers with the same meaning are equal. */
export interface CanonicalPeers {
  /**
   * A hash of the peers themselves, not of the addresses they resolve to: members change, the id
   * doesn't.
   */
  readonly id: string;
  /** Human-readable: the selectors and names, sorted, and the static addresses. */
  readonly description: string;
  /** The fqdn peers, sorted. */
  readonly names: readonly string[];
  /** The static blocks, merged. */
  readonly fixed: MemberSet;
  readonly selectors: readonly Selector[];
}

/** A generator, so that a million blocks need not be in memory at once. */
function* blocksOf(peers: readonly AddressPeer[]): Iterable<CidrBlock> {
  for (const peer of peers) {
    if (!('ipBlock' in peer)) continue;
    const { cidr, except = [] } = peer.ipBlock;
    yield { cidr: toCidr(cidr), except: except.map(toCidr) };
  }
}

/** A selector of a peer that has no addresses of its own. Equal selectors have equal `words`. */
export type Selector = { readonly words: string } & (
  | { readonly of: 'nodes'; readonly requirements: Requirements }
  /** `namespace` selects the pods' Namespaces. */
  | { readonly of: 'pods'; readonly requirements: Requirements; readonly namespace: Requirements }
  | { readonly of: 'account'; readonly account: NamespacedName }
  /** `controllers` of the failsafe list: also the pods of the account with hostNetwork. */
  | { readonly of: 'controllers'; readonly account: NamespacedName }
  /** Selects the pods of a Service. */
  | { readonly of: 'service'; readonly service: NamespacedName }
);

/** No peers at all (an empty ClusterGroup) result in a set without members. */
export function canonicalPeers(peers: readonly AddressPeer[]): CanonicalPeers {
  const byName = new Map<string, string>();
  const bySelector = new Map<string, Selector>();
  for (const peer of peers) {
    if ('ipBlock' in peer) continue;
    if ('fqdn' in peer) {
      byName.set(`name ${peer.fqdn}`, peer.fqdn);
    } else {
      const found = toSelector(peer);
      bySelector.set(found.words, found);
    }
  }
  const hasBlocks = peers.some((peer) => 'ipBlock' in peer);
  const fixed = hasBlocks ? toMemberSet(blocksOf(peers), []) : NO_MEMBERS;
  return named(fixed, byName, bySelector);
}

/** The pods of nodewall's controllers, which the failsafe list knows as `controllers`. */
export function controllerPeers(account: NamespacedName): CanonicalPeers {
  const words = `controllers ${formatName(account)}`;
  return named(NO_MEMBERS, new Map(), new Map([[words, { words, of: 'controllers', account }]]));
}

function named(
  fixed: MemberSet,
  byName: ReadonlyMap<string, string>,
  bySelector: ReadonlyMap<string, Selector>,
): CanonicalPeers {
  const words = [...bySelector.keys(), ...byName.keys()].sort();
  const fixedWords = formatMembers(fixed);
  return {
    id: shortHash(12, words, fixedWords),
    description: words.concat(fixedWords).join('; ') || 'no address',
    names: [...byName.values()].sort(),
    fixed,
    selectors: words.flatMap((word) => bySelector.get(word) ?? []),
  };
}

function toSelector(
  peer: Exclude<AddressPeer, { readonly ipBlock: unknown } | { readonly fqdn: unknown }>,
): Selector {
  if ('nodeSelector' in peer) {
    const requirements = canonicalRequirements(peer.nodeSelector);
    return { words: `nodes ${formatRequirements(requirements)}`, of: 'nodes', requirements };
  }
  if ('serviceAccount' in peer) {
    const { serviceAccount: account } = peer;
    return { words: `serviceAccount ${formatName(account)}`, of: 'account', account };
  }
  if ('serviceReference' in peer) {
    const { serviceReference: service } = peer;
    return { words: `pods of service ${formatName(service)}`, of: 'service', service };
  }
  const { podSelector, namespaceSelector } = peer;
  const requirements = canonicalRequirements(podSelector ?? {});
  const namespace = canonicalRequirements(namespaceSelector ?? {});
  const inNamespaces = namespaceSelector && ` in namespaces ${formatRequirements(namespace)}`;
  const words = `pods ${formatRequirements(requirements)}${inNamespaces ?? ''}`;
  return { words, of: 'pods', requirements, namespace };
}

/** The current Nodes, Pods and Services. */
export interface ClusterIndexes {
  readonly index: ObjectIndex;
  readonly services: ServiceIndex;
}

function select(selector: Selector, { index, services }: ClusterIndexes): Iterable<Holder> {
  switch (selector.of) {
    case 'nodes':
      return index.selectNodes(selector.requirements);
    case 'pods':
      return index.selectPods(selector.requirements, selector.namespace);
    case 'account':
    case 'controllers':
      return index.serviceAccountPods(selector.account.namespace, selector.account.name);
    case 'service': {
      // A Service without a selector, or with an empty one, selects no pods: third parties manage
      // its endpoints.
      const labels = services.service(selector.service)?.selector ?? {};
      return Object.keys(labels).length === 0 ? [] : index.labelledPods(selector.service.namespace, labels);
    }
  }
}

/** A pod on the host's network is no peer, but a controller. */
function countsFor(selector: Selector, holder: Holder): boolean {
  return holder.kind === 'Node' || holder.hostNetwork !== true || selector.of === 'controllers';
}

/** Whether one of the selectors selects this Node or Pod; consistent with `select`. */
export function selectsHolder({ selectors }: CanonicalPeers, holder: Holder, world: ClusterIndexes): boolean {
  return selectors.some((selector) => selects(selector, holder, world));
}

function selects(selector: Selector, holder: Holder, world: ClusterIndexes): boolean {
  if (holder.kind === 'Node') return selector.of === 'nodes' && allHold(selector.requirements, holder.labels);
  if (!countsFor(selector, holder)) return false;
  switch (selector.of) {
    case 'nodes':
      return false;
    case 'pods':
      return (
        allHold(selector.requirements, holder.labels) &&
        (selector.namespace.length === 0 ||
          allHold(selector.namespace, world.index.namespaceLabels(holder.namespace)))
      );
    case 'account':
    case 'controllers':
      return (
        holder.namespace === selector.account.namespace && holder.serviceAccount === selector.account.name
      );
    case 'service': {
      const labels = world.services.service(selector.service)?.selector ?? {};
      return (
        holder.namespace === selector.service.namespace &&
        Object.keys(labels).length > 0 &&
        allHold(canonicalRequirements({ matchLabels: labels }), holder.labels)
      );
    }
  }
}

/** Resolves the members, except those of names, which each node resolves itself. */
export function resolve(peers: CanonicalPeers, world: ClusterIndexes): AddressSet {
  const found: string[] = [];
  for (const selector of peers.selectors) {
    for (const holder of select(selector, world)) {
      if (!countsFor(selector, holder)) continue;
      for (const address of addressesOf(holder)) found.push(address);
    }
  }
  return {
    id: peers.id,
    description: peers.description,
    dynamic: peers.selectors.length > 0 || peers.names.length > 0,
    names: peers.names,
    members: addAddresses(peers.fixed, found),
  };
}

/** Validation has checked that it is a CIDR. */
function toCidr(text: string): Cidr {
  const parsed = parseCidr(text);
  if (parsed === null) throw new TypeError(`${text} is not a valid CIDR`);
  return parsed.cidr;
}
