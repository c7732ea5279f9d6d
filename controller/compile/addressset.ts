import { type Cidr, parseCidr } from '../../apis/address.ts';
import type { AddressSet } from '../../apis/compiled.ts';
import { shortHash } from '../../apis/hash.ts';
import { type Block, formatMembers, toMemberSet } from '../../apis/memberset.ts';
import type { NamespacedName, Pod } from '../../apis/objects.ts';
import type { ObjectIndex } from '../index/objectindex.ts';
import { formatSelector } from '../index/selector.ts';
import { formatName, type ServiceIndex } from '../index/serviceindex.ts';
import type { AddressPeer } from './peers.ts';

/** A rule's peers with everything that is written differently but means the same made equal. */
export interface CanonicalPeers {
  /** A hash of what the peers say, never of what they resolve to: members change, the id stays. */
  readonly id: string;
  /** The selectors and names in words, sorted, and the static addresses. */
  readonly description: string;
  /** The fqdn peers, sorted. */
  readonly names: readonly string[];
  readonly blocks: readonly Block[];
  /** How to find each selector's addresses. */
  readonly selectors: readonly Selector[];
}

interface Selector {
  readonly words: string;
  /** Whether it looks at Services besides Nodes, Namespaces and Pods. */
  readonly ofService: boolean;
  readonly select: (
    index: ObjectIndex,
    services: ServiceIndex,
  ) => readonly { readonly addresses: readonly string[] }[];
}

/** No peers at all (a ClusterGroup that holds nothing) are a set without members. */
export function canonicalPeers(peers: readonly AddressPeer[]): CanonicalPeers {
  const blocks: Block[] = [];
  const byName = new Map<string, string>();
  const bySelector = new Map<string, Selector>();
  for (const { ipBlock, fqdn, ...selector } of peers) {
    if (ipBlock !== undefined) {
      blocks.push({ cidr: toCidr(ipBlock.cidr), except: (ipBlock.except ?? []).map(toCidr) });
    } else if (fqdn !== undefined) {
      byName.set(`name ${fqdn}`, fqdn);
    } else {
      const found = toSelector(selector);
      bySelector.set(found.words, found);
    }
  }
  const words = [...bySelector.keys(), ...byName.keys()].sort();
  const fixed = blocks.length === 0 ? [] : formatMembers(toMemberSet(blocks, []));
  return {
    id: shortHash(12, words, fixed),
    description: [...words, ...fixed].join('; ') || 'no address',
    names: [...byName.values()].sort(),
    blocks,
    selectors: words.flatMap((word) => bySelector.get(word) ?? []),
  };
}

function toSelector(peer: Omit<AddressPeer, 'ipBlock' | 'fqdn'>): Selector {
  const { nodeSelector, podSelector, namespaceSelector, serviceAccount, serviceReference } = peer;
  if (nodeSelector !== undefined) {
    return {
      words: `nodes ${formatSelector(nodeSelector)}`,
      ofService: false,
      select: (index) => index.selectNodes(nodeSelector),
    };
  }
  if (serviceAccount !== undefined) {
    const { namespace, name } = serviceAccount;
    return {
      words: `serviceAccount ${namespace}/${name}`,
      ofService: false,
      select: (index) => index.serviceAccountPods(namespace, name),
    };
  }
  if (serviceReference !== undefined) {
    return {
      words: `pods of service ${formatName(serviceReference)}`,
      ofService: true,
      select: (index, services) => servicePods(serviceReference, index, services),
    };
  }
  const pods = `pods ${formatSelector(podSelector ?? {})}`;
  const inNamespaces = namespaceSelector && ` in namespaces ${formatSelector(namespaceSelector)}`;
  return {
    words: `${pods}${inNamespaces ?? ''}`,
    ofService: false,
    select: (index) => index.selectPods(peer),
  };
}

/** A Service without a selector, or with an empty one, selects no pods: its endpoints are somebody else's to say. */
function servicePods(name: NamespacedName, index: ObjectIndex, services: ServiceIndex): readonly Pod[] {
  const labels = services.service(name)?.selector ?? {};
  return Object.keys(labels).length === 0 ? [] : index.labelledPods(name.namespace, labels);
}

/** Looks the members up, all but what names resolve to: that is the node's to know. */
export function resolve(peers: CanonicalPeers, index: ObjectIndex, services: ServiceIndex): AddressSet {
  return {
    id: peers.id,
    description: peers.description,
    dynamic: peers.selectors.length > 0 || peers.names.length > 0,
    names: peers.names,
    members: toMemberSet(peers.blocks, addresses(peers, index, services)),
  };
}

function* addresses(
  { selectors }: CanonicalPeers,
  index: ObjectIndex,
  services: ServiceIndex,
): Iterable<string> {
  for (const { select } of selectors) {
    for (const { addresses: found } of select(index, services)) yield* found;
  }
}

/** Whether an AddressSet of these peers may be another when only Services changed. */
export function followsServices({ selectors }: CanonicalPeers): boolean {
  return selectors.some(({ ofService }) => ofService);
}

/** Validation made it a CIDR. */
function toCidr(text: string): Cidr {
  const parsed = parseCidr(text);
  if (parsed === null) throw new TypeError(`${text} is no CIDR`);
  return parsed.cidr;
}
