import type { Address } from '../oracle/address.ts';
import { formatAddress, parseAddress, parseCidr } from '../oracle/address.ts';
import type { Cluster } from '../oracle/cluster.ts';
import { toCluster } from '../oracle/cluster.ts';
import type { FailsafeEntry, Names, OracleConfig } from '../oracle/config.ts';
import type { Endpoint } from '../oracle/endpoint.ts';
import { protocolNumbers } from '../oracle/flow.ts';
import { groupNumber } from '../oracle/interfacegroup.ts';
import type {
  GroupManifest,
  IPBlock,
  PeerManifest,
  PolicyManifest,
  PortManifest,
  ProtocolManifest,
  RuleManifest,
} from '../oracle/manifest.ts';
import { resolveName } from '../oracle/name.ts';
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
  traffic: 'Host' | 'NodePort';
  ports: PortManifest[];
  protocols: ProtocolManifest[];
  /** Addresses at the edges of its peers, inside and just outside; empty where any address does. */
  addresses: string[];
  /** Link groups of its peers, by number and by name. */
  interfaceGroups: (number | string)[];
  /** Exact destinations, in the stead of addresses and ports: what `toServices` stands for. */
  endpoints: { address: string; port: PortManifest }[];
}

/** What a scenario's policies are read against. */
export interface AimContext {
  objects: object[];
  groups: GroupManifest[];
  names: Names;
  config: OracleConfig;
}

/** An aim at nothing in particular. */
export function noAim(direction: Aim['direction']): Aim {
  const lists = { ports: [], protocols: [], addresses: [], interfaceGroups: [], endpoints: [] };
  return { direction, traffic: 'Host', ...lists };
}

/** The aims of all rules. */
export function toRuleAims(context: AimContext, policies: PolicyManifest[]): Aim[] {
  const cluster = toCluster(context.objects);
  const known = knownAddresses(context.objects);
  return policies.flatMap(({ spec }) =>
    directions.flatMap((direction) =>
      (spec[direction] ?? []).map((rule): Aim => {
        const peers = (direction === 'ingress' ? rule.from : rule.to) ?? [];
        return {
          direction,
          traffic: spec.traffic === 'NodePort' ? 'NodePort' : 'Host',
          ports: rule.ports ?? [],
          protocols: rule.protocols ?? [],
          addresses: peers.flatMap((peer) => peerAddresses(peer, known, context)),
          interfaceGroups: peers.flatMap((peer) => spellings(peer.interfaceGroup, context.config)),
          endpoints: toEndpoints(rule, cluster),
        };
      }),
    ),
  );
}

/** The aims of the failsafe lists; the default list's ports where the configuration replaces none. */
export function toFailsafeAims(objects: object[], config: OracleConfig): Aim[] {
  const nodes = toCluster(objects).nodes.flatMap(({ addresses }) => addresses.map(formatAddress));
  return directions.flatMap((direction) =>
    (config.failsafe?.[direction] ?? defaultFailsafe).map(({ peers, ...port }) => ({
      ...noAim(direction),
      ports: [port],
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

function peerAddresses(peer: PeerManifest, known: string[], { groups, names }: AimContext): string[] {
  if (peer.ipBlock !== undefined) return blockEdges(peer.ipBlock);
  if (peer.interfaceGroup !== undefined) return [];
  if (peer.fqdn !== undefined) return resolveName(peer.fqdn, names).flatMap(around);
  return peer.group === undefined ? known : groupAddresses(peer.group, known, groups);
}

/** Of every group of that name, in whichever API group: a flow towards the wrong one is a near miss. */
function groupAddresses(name: string, known: string[], groups: GroupManifest[]): string[] {
  const specs = groups.filter(({ metadata }) => metadata.name === name).map(({ spec }) => spec);
  return specs.flatMap(({ ipBlocks, childGroups }) => {
    if (childGroups !== undefined)
      return childGroups.flatMap((child) => groupAddresses(child, known, groups));
    return ipBlocks === undefined ? known : ipBlocks.flatMap(blockEdges);
  });
}

function toEndpoints(rule: RuleManifest, { services }: Cluster): Aim['endpoints'] {
  const isNamed = ({ name, namespace }: { name: string; namespace: string }) =>
    (rule.toServices ?? []).some((reference) => reference.name === name && reference.namespace === namespace);
  return services.filter(isNamed).flatMap(({ endpoints }) =>
    endpoints.map((endpoint) => ({
      address: formatAddress(endpoint.address),
      port: { protocol: protocolName(endpoint), port: endpoint.port },
    })),
  );
}

function protocolName({ protocol }: Endpoint): string {
  const found = Object.entries(protocolNumbers).find(([, number]) => number === protocol);
  return (found?.[0] ?? 'tcp').toUpperCase();
}

function spellings(group: number | string | undefined, config: OracleConfig): (number | string)[] {
  if (group === undefined) return [];
  const number = groupNumber(group, config);
  return number === undefined ? [group] : [group, number];
}

function blockEdges({ cidr, except }: IPBlock): string[] {
  return [cidr, ...(except ?? [])].flatMap(cidrEdges);
}

function cidrEdges(cidr: string): string[] {
  const { family, first, last } = parseCidr(cidr);
  const middle = formatAddress({ family, value: (first + last) / 2n });
  const [low, high] = [first, last].map((value) => formatAddress({ family, value }));
  const edges = [low ?? '', high ?? ''].flatMap((edge) => [edge, shift(edge, -1), shift(edge, 1)]);
  return [middle, ...edges].filter((text) => parseAddress(text) !== undefined);
}

/** The address as a rule, the next one rarely. */
function around(address: Address): string[] {
  const text = formatAddress(address);
  return [text, text, text, shift(text, 1)];
}
