import { type Cidr, parseCidr } from '../../apis/address.ts';
import type { AddressSet } from '../../apis/compiled.ts';
import { shortHash } from '../../apis/hash.ts';
import { type Block, formatMembers, toMemberSet } from '../../apis/memberset.ts';
import type { NetworkPolicyPeer } from '../../apis/objects.ts';
import type { ObjectIndex } from '../index/objectindex.ts';
import { formatSelector } from '../index/selector.ts';

/** A rule's peers with everything that is written differently but means the same made equal. */
export interface CanonicalPeers {
  /** A hash of what the peers say, never of what they resolve to: members change, the id stays. */
  readonly id: string;
  /** The selectors in words, sorted, and the static addresses. */
  readonly description: string;
  readonly blocks: readonly Block[];
  /** How to find each selector's addresses. */
  readonly selectors: readonly Selector[];
}

interface Selector {
  readonly words: string;
  readonly select: (index: ObjectIndex) => readonly { readonly addresses: readonly string[] }[];
}

export function canonicalPeers(peers: readonly NetworkPolicyPeer[]): CanonicalPeers {
  const blocks: Block[] = [];
  const bySelector = new Map<string, Selector>();
  for (const { ipBlock, ...selector } of peers) {
    if (ipBlock === undefined) {
      const found = toSelector(selector);
      bySelector.set(found.words, found);
    } else {
      blocks.push({ cidr: toCidr(ipBlock.cidr), except: (ipBlock.except ?? []).map(toCidr) });
    }
  }
  const words = [...bySelector.keys()].sort();
  const fixed = blocks.length === 0 ? [] : formatMembers(toMemberSet(blocks, []));
  return {
    id: shortHash(12, words, fixed),
    description: [...words, ...fixed].join('; '),
    blocks,
    selectors: words.flatMap((word) => bySelector.get(word) ?? []),
  };
}

function toSelector(peer: Omit<NetworkPolicyPeer, 'ipBlock'>): Selector {
  const { nodeSelector, podSelector, namespaceSelector, serviceAccount } = peer;
  if (nodeSelector !== undefined) {
    return {
      words: `nodes ${formatSelector(nodeSelector)}`,
      select: (index) => index.selectNodes(nodeSelector),
    };
  }
  if (serviceAccount !== undefined) {
    const { namespace, name } = serviceAccount;
    return {
      words: `serviceAccount ${namespace}/${name}`,
      select: (index) => index.serviceAccountPods(namespace, name),
    };
  }
  const pods = `pods ${formatSelector(podSelector ?? {})}`;
  const inNamespaces = namespaceSelector && ` in namespaces ${formatSelector(namespaceSelector)}`;
  return { words: `${pods}${inNamespaces ?? ''}`, select: (index) => index.selectPods(peer) };
}

/** Looks the members up. */
export function resolve(peers: CanonicalPeers, index: ObjectIndex): AddressSet {
  return {
    id: peers.id,
    description: peers.description,
    dynamic: peers.selectors.length > 0,
    members: toMemberSet(peers.blocks, addresses(peers, index)),
  };
}

function* addresses({ selectors }: CanonicalPeers, index: ObjectIndex): Iterable<string> {
  for (const { select } of selectors) for (const { addresses: found } of select(index)) yield* found;
}

/** Validation made it a CIDR. */
function toCidr(text: string): Cidr {
  const parsed = parseCidr(text);
  if (parsed === null) throw new TypeError(`${text} is no CIDR`);
  return parsed.cidr;
}
