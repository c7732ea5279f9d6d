import type { TunnelEnd } from '../../apis/egress/node-egress.ts';
import type { Node } from '../../apis/objects.ts';
import { type Family, parseAddress } from '../../lib/net/address.ts';
import { shortHash } from '../../lib/sharing/hash.ts';

/**
 * The ends of the tunnel by node name, all of the family that most Nodes have an InternalIP of, or
 * IPv4. A Node without one has no end.
 */
export function tunnelEnds(nodes: readonly Node[]): Map<string, TunnelEnd> {
  const count = (family: Family): number => nodes.filter((node) => addressOf(node, family) !== null).length;
  const family = count(6) > count(4) ? 6 : 4;
  return new Map(
    nodes.flatMap((node) => {
      const address = addressOf(node, family);
      return address === null ? [] : [[node.name, { node: node.name, address, mac: macOf(node) }] as const];
    }),
  );
}

function addressOf({ internalAddresses = [] }: Node, family: Family): string | null {
  return internalAddresses.find((text) => parseAddress(text)?.family === family) ?? null;
}

/** Locally administered: no vendor has the prefix. */
function macOf({ uid, name }: Node): string {
  const digits = shortHash(10, uid ?? name);
  return ['0e', ...(digits.match(/../g) ?? [])].join(':');
}
