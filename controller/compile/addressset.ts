import { BITS, type Cidr, parseAddress, parseCidr } from '../../apis/address.ts';
import type { AddressSet } from '../../apis/compiled.ts';
import { shortHash } from '../../apis/hash.ts';
import { type Block, formatMembers, toMemberSet } from '../../apis/memberset.ts';
import type { NetworkPolicyPeer } from '../../apis/objects.ts';
import type { ObjectIndex } from '../index/objectindex.ts';
import { formatSelector } from '../index/selector.ts';

/** A rule's peers with everything that is written differently but means the same made equal. */
interface CanonicalPeers {
  readonly blocks: readonly Block[];
  /** One line for each selector, sorted, and how to find its addresses. */
  readonly selectors: ReadonlyMap<string, () => Iterable<string>>;
}

/** Makes each AddressSet once, however many rules name it. */
export interface AddressSets {
  /** Returns the id. */
  add(peers: readonly NetworkPolicyPeer[]): string;
  readonly byId: ReadonlyMap<string, AddressSet>;
}

export function addressSets(index: ObjectIndex): AddressSets {
  const byId = new Map<string, AddressSet>();
  const bySpelling = new Map<string, string>();
  return {
    byId,
    add(peers) {
      const spelling = JSON.stringify(peers);
      let id = bySpelling.get(spelling);
      if (id === undefined) {
        const set = toAddressSet(canonicalPeers(peers, index), byId);
        byId.set(set.id, set);
        id = set.id;
        bySpelling.set(spelling, id);
      }
      return id;
    },
  };
}

/** The id is a hash of what the peers say, never of what they resolve to: members change, the id stays. */
function toAddressSet(
  { blocks, selectors }: CanonicalPeers,
  known: ReadonlyMap<string, AddressSet>,
): AddressSet {
  const fixed = formatMembers(toMemberSet(blocks, []));
  const words = [...selectors.keys()].sort();
  const id = shortHash(12, words, fixed);
  const same = known.get(id);
  if (same !== undefined) return same;
  return {
    id,
    description: [...words, ...fixed].join('; '),
    dynamic: words.length > 0,
    members: toMemberSet(blocks, resolve(selectors)),
  };
}

function* resolve(selectors: CanonicalPeers['selectors']): Iterable<string> {
  for (const addresses of selectors.values()) yield* addresses();
}

function canonicalPeers(peers: readonly NetworkPolicyPeer[], index: ObjectIndex): CanonicalPeers {
  const blocks: Block[] = [];
  const selectors = new Map<string, () => Iterable<string>>();
  for (const peer of peers) {
    const { ipBlock, nodeSelector, podSelector, namespaceSelector, serviceAccount } = peer;
    if (ipBlock !== undefined) {
      blocks.push({ cidr: toCidr(ipBlock.cidr), except: (ipBlock.except ?? []).map(toCidr) });
    } else if (nodeSelector !== undefined) {
      selectors.set(`nodes ${formatSelector(nodeSelector)}`, () =>
        index.selectNodes(nodeSelector).flatMap((node) => node.addresses),
      );
    } else if (serviceAccount !== undefined) {
      const { namespace, name } = serviceAccount;
      selectors.set(`serviceAccount ${namespace}/${name}`, () =>
        index.serviceAccountPods(namespace, name).flatMap((pod) => pod.addresses),
      );
    } else {
      selectors.set(formatPodSelector(podSelector, namespaceSelector), () =>
        index.selectPods(peer).flatMap((pod) => pod.addresses),
      );
    }
  }
  return { blocks, selectors };
}

function formatPodSelector(
  podSelector: NetworkPolicyPeer['podSelector'],
  namespaceSelector: NetworkPolicyPeer['namespaceSelector'],
): string {
  const pods = `pods ${formatSelector(podSelector ?? {})}`;
  return namespaceSelector === undefined
    ? pods
    : `${pods} in namespaces ${formatSelector(namespaceSelector)}`;
}

/** Validation passed, so the text is a CIDR or an address; host bits are masked. */
function toCidr(text: string): Cidr {
  const parsed = parseCidr(text);
  if (parsed !== null) return parsed.cidr;
  const address = parseAddress(text);
  if (address === null) throw new TypeError(`${text} is no CIDR`);
  return { ...address, length: BITS[address.family] };
}
