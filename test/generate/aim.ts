import { formatAddress, parseAddress, parseCidr } from '../oracle/address.ts';
import { toCluster } from '../oracle/cluster.ts';
import type { FailsafeEntry, OracleConfig } from '../oracle/config.ts';
import type { PeerManifest, PolicyManifest, PortManifest, ProtocolManifest } from '../oracle/manifest.ts';
import { shift } from './address.ts';

const directions = ['ingress', 'egress'] as const;

/** The default's ports, for flows in both directions; whether they are on the list is the oracle's to say. */
const defaultFailsafe: FailsafeEntry[] = [
  { protocol: 'TCP', port: 6443, peers: 'nodes' },
  { protocol: 'TCP', port: 2379, endPort: 2380, peers: 'nodes' },
  { protocol: 'TCP', port: 10250, peers: 'nodes' },
  { protocol: 'TCP', port: 53, peers: 'any' },
  { protocol: 'UDP', port: 53, peers: 'any' },
];

/** What one rule or failsafe entry asks about: where to send a flow so that it comes close. */
export interface Aim {
  direction: 'ingress' | 'egress';
  ports: PortManifest[];
  protocols: ProtocolManifest[];
  /** Addresses at the edges of its peers, inside and just outside; empty where any address does. */
  addresses: string[];
}

/** The aims of all rules. */
export function toRuleAims(objects: object[], policies: PolicyManifest[]): Aim[] {
  const known = knownAddresses(objects);
  const toAddresses = (peers: PeerManifest[]) =>
    peers.flatMap((peer) => (peer.ipBlock === undefined ? known : blockEdges(peer.ipBlock)));
  return policies.flatMap(({ spec }) =>
    directions.flatMap((direction) =>
      (spec[direction] ?? []).map((rule) => ({
        direction,
        ports: rule.ports ?? [],
        protocols: rule.protocols ?? [],
        addresses: toAddresses((direction === 'ingress' ? rule.from : rule.to) ?? []),
      })),
    ),
  );
}

/** The aims of the failsafe lists; the default list's ports where the configuration replaces none. */
export function toFailsafeAims(objects: object[], config: OracleConfig): Aim[] {
  const nodes = toCluster(objects).nodes.flatMap(({ addresses }) => addresses.map(formatAddress));
  return directions.flatMap((direction) =>
    (config.failsafe?.[direction] ?? defaultFailsafe).map(({ peers, ...port }) => ({
      direction,
      ports: [port],
      protocols: [],
      addresses: Array.isArray(peers) ? peers.flatMap(cidrEdges) : nodes,
    })),
  );
}

/** Every address that Nodes and pods have. */
export function knownAddresses(objects: object[]): string[] {
  const { nodes, pods } = toCluster(objects);
  return [...nodes, ...pods].flatMap(({ addresses }) => addresses.map(formatAddress));
}

/** The addresses of one Node, as the oracle reads them. */
export function addressesOfNode(objects: object[], name: string): string[] {
  const node = toCluster(objects).nodes.find((item) => item.name === name);
  return (node?.addresses ?? []).map(formatAddress);
}

function blockEdges({ cidr, except }: { cidr: string; except?: string[] }): string[] {
  return [cidr, ...(except ?? [])].flatMap(cidrEdges);
}

function cidrEdges(cidr: string): string[] {
  const { family, first, last } = parseCidr(cidr);
  const middle = formatAddress({ family, value: (first + last) / 2n });
  const [low, high] = [first, last].map((value) => formatAddress({ family, value }));
  const edges = [low ?? '', high ?? ''].flatMap((edge) => [edge, shift(edge, -1), shift(edge, 1)]);
  return [middle, ...edges].filter((text) => parseAddress(text) !== undefined);
}
