import type { NetworkPolicyPeer, Node } from '../../apis/objects.ts';
import { BITS, type Cidr, parseAddress } from '../../lib/net/address.ts';
import { hostnameSelector } from './node-selector.ts';
import type { Role } from './roles.ts';

/** Nodes of a role that are named; more are selected with the rest of their role. */
const MOST_NAMES = 3;

export interface NodePeers {
  readonly peers: readonly NetworkPolicyPeer[];
  /** Addresses of Nodes that no selector names. */
  readonly blocks: readonly Cidr[];
}

/**
 * Nodes as peers: by the selectors of their roles, where at least half of a role was seen, or more
 * than a few of its nodes; else by their names. `nodeSelector: {}` where all roles are seen.
 */
export function nodePeers(seen: readonly Node[], roles: readonly Role[]): NodePeers {
  const peers: NetworkPolicyPeer[] = [];
  const named: Node[] = [];
  const left = new Map(seen.map((node) => [node.name, node]));
  let whole = 0;
  for (const { nodes, selector, isByName, unknownNodes } of roles) {
    const own = nodes.flatMap((name) => left.get(name) ?? []);
    for (const { name } of own) left.delete(name);
    const isWhole = own.length * 2 >= nodes.length || own.length > MOST_NAMES;
    if (own.length === 0) continue;
    const isSelected = own.length === nodes.length || (isWhole && own.length > 1);
    if (isByName || selector === null || !isSelected) {
      named.push(...own);
      continue;
    }
    peers.push({ nodeSelector: selector });
    whole++;
    for (const name of unknownNodes) left.delete(name);
  }
  // Nodes that did not answer are of no role.
  named.push(...left.values());
  if (roles.length > 1 && whole === roles.length) return { peers: [{ nodeSelector: {} }], blocks: [] };
  const unlabelled = named.filter((node) => hostnameSelector([node]) === null);
  const byName = hostnameSelector(named.filter((node) => !unlabelled.includes(node)));
  if (byName !== null) peers.push({ nodeSelector: byName });
  return { peers, blocks: unlabelled.flatMap(blocksOf) };
}

function blocksOf({ addresses }: Node): Cidr[] {
  return addresses.flatMap((text) => {
    const address = parseAddress(text);
    return address === null ? [] : { ...address, length: BITS[address.family] };
  });
}
