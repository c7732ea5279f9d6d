import type { AddressSet } from '../../apis/compiled.ts';
import type {
  AppliedTo,
  ClusterGroup,
  ClusterGroupSpec,
  LabelSelector,
  NamespacedName,
  NetworkPolicyPeer,
} from '../../apis/objects.ts';
import { BITS, type Cidr, parseCidr } from '../../lib/net/address.ts';
import {
  addAddresses,
  type CidrBlock,
  formatMembers,
  type MemberSet,
  NO_MEMBERS,
  toMemberSet,
} from '../../lib/net/member-set.ts';
import { shortHash } from '../../lib/sharing/hash.ts';
import { formatName, type ServiceIndex } from '../index/name-index.ts';
import { addressesOf, type Holder, type ObjectIndex } from '../index/object-index.ts';
import { allHold, canonicalRequirements, formatRequirements, type Requirements } from '../index/selector.ts';

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
type Selector = { readonly words: string } & (
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

/** A peer listed by a rule, or one from a ClusterGroup that the rule names. */
type DirectPeer =
  | Exclude<NetworkPolicyPeer, { readonly group: string }>
  | { readonly serviceReference: NamespacedName };

/** A peer that stands for addresses. */
export type AddressPeer = Exclude<DirectPeer, { readonly interfaceGroup: unknown }>;

/** Finds the ClusterGroup of a name as the policy resolves it, and its childGroups. */
export type FamilyOf = (name: string) => readonly ClusterGroup[];

/**
 * The peers with groups replaced by their content: a rule compiles to the same result with a group
 * as without.
 */
export function directPeers(peers: readonly NetworkPolicyPeer[], familyOf: FamilyOf): DirectPeer[] {
  return peers.flatMap((peer): DirectPeer[] => {
    return 'group' in peer ? familyOf(peer.group).flatMap(({ spec }) => groupPeers(spec)) : [peer];
  });
}

export function addressPeers(peers: readonly NetworkPolicyPeer[], familyOf: FamilyOf): AddressPeer[] {
  return directPeers(peers, familyOf).flatMap((peer) => ('interfaceGroup' in peer ? [] : peer));
}

/**
 * Whether a rule with these peers names pods: one is a selector of pods, a service account, the
 * pods of a Service, or a single address, which may be a pod's.
 */
export function namesPods(peers: readonly NetworkPolicyPeer[], familyOf: FamilyOf): boolean {
  return directPeers(peers, familyOf).some((peer) => {
    if ('ipBlock' in peer) {
      const cidr = parseCidr(peer.ipBlock.cidr)?.cidr;
      return cidr !== undefined && cidr.length === BITS[cidr.family];
    }
    return !('nodeSelector' in peer || 'fqdn' in peer || 'interfaceGroup' in peer);
  });
}

function groupPeers(spec: ClusterGroupSpec): AddressPeer[] {
  const { ipBlocks = [], childGroups: _, nodeSelector, serviceReference, ...pods } = spec;
  if (nodeSelector !== undefined) return [{ nodeSelector }];
  if (serviceReference !== undefined) return [{ serviceReference }];
  return Object.keys(pods).length === 0 ? ipBlocks.map((ipBlock) => ({ ipBlock })) : [pods];
}

/** The link groups among the peers, unique, numbers first. */
export function peerInterfaceGroups(peers: readonly NetworkPolicyPeer[]): (string | number)[] {
  const groups = [...new Set(peers.flatMap((peer) => ('interfaceGroup' in peer ? peer.interfaceGroup : [])))];
  const numbers = groups.filter((group) => typeof group === 'number').sort((a, b) => a - b);
  return [...numbers, ...groups.filter((group) => typeof group === 'string').sort()];
}

/** The selectors of the Nodes that an appliedTo list selects. */
export function nodeSelectors(appliedTo: readonly AppliedTo[], familyOf: FamilyOf): LabelSelector[] {
  return appliedTo.flatMap(({ nodeSelector, group }) => {
    if (group === undefined) return nodeSelector ?? [];
    return familyOf(group).flatMap(({ spec }) => spec.nodeSelector ?? []);
  });
}
