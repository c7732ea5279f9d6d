import type { EgressConfig } from '../../apis/egress/config.ts';
import type { TunnelEnd } from '../../apis/egress/node-egress.ts';
import type { Node } from '../../apis/objects.ts';
import {
  BITS,
  covers,
  type Family,
  formatCidr,
  lastAddress,
  parseAddress,
  parseCidr,
} from '../../lib/net/address.ts';
import { shortHash } from '../../lib/sharing/hash.ts';
import { compareBigInts } from '../../lib/sharing/lists.ts';
import { present } from '../../lib/sharing/present.ts';

/**
 * The ends of the tunnel by node name, all of the family that most Nodes have an InternalIP of, or
 * IPv4. A Node without one has no end.
 */
export function tunnelEnds(
  nodes: readonly Node[],
  leftOut: ReadonlySet<string> = new Set(),
  encryption: EgressConfig['encryption'] = 'None',
): Map<string, TunnelEnd> {
  const own = ownNetworks(nodes, leftOut);
  const count = (family: Family): number => nodes.filter((node) => addressOf(node, family) !== null).length;
  const family = count(6) > count(4) ? 6 : 4;
  return new Map(
    nodes.flatMap((node) => {
      const address = addressOf(node, family);
      if (address === null) return [];
      const networks = own.get(node.name);
      const key = encryption === 'WireGuard' ? (node.tunnelKey ?? '') : undefined;
      const end: TunnelEnd = {
        node: node.name,
        address,
        mac: macOf(node),
        ...present({ key }),
        ...(networks && { networks }),
      };
      return [[node.name, end] as const];
    }),
  );
}

/** The pod networks of each Node that overlap no other Node's, by name. */
function ownNetworks(
  nodes: readonly Node[],
  leftOut: ReadonlySet<string>,
): ReadonlyMap<string, readonly string[]> {
  const all = nodes.flatMap(({ name, podCIDRs = [] }) =>
    podCIDRs.flatMap((text) => {
      if (leftOut.has(text)) return [];
      const cidr = parseCidr(text)?.cidr;
      if (cidr === undefined || cidr.length === BITS[cidr.family]) return [];
      return { name, text: formatCidr(cidr), cidr, last: lastAddress(cidr) };
    }),
  );
  // Sorted by address, the wider first, one CIDR overlaps a later one only if it contains it.
  all.sort(
    (a, b) =>
      a.cidr.family - b.cidr.family ||
      compareBigInts(a.cidr.value, b.cidr.value) ||
      compareBigInts(b.last, a.last),
  );
  const shared = new Set<(typeof all)[number]>();
  let widest: (typeof all)[number] | null = null;
  for (const one of all) {
    if (widest !== null && covers(widest.cidr, one.cidr)) shared.add(widest).add(one);
    else widest = one;
  }
  const found = Map.groupBy(
    all.filter((one) => !shared.has(one)),
    ({ name }) => name,
  );
  return new Map([...found].map(([name, list]) => [name, list.map(({ text }) => text)]));
}

function addressOf({ internalAddresses = [] }: Node, family: Family): string | null {
  return internalAddresses.find((text) => parseAddress(text)?.family === family) ?? null;
}

/** Locally administered: no vendor has the prefix. */
function macOf({ uid, name }: Node): string {
  const digits = shortHash(10, uid ?? name);
  return ['0e', ...(digits.match(/../g) ?? [])].join(':');
}
