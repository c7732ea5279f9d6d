import { type Address, formatAddress, parseAddress, parseCidr } from '../oracle/address.ts';
import { type Cluster, toCluster } from '../oracle/cluster.ts';
import type { Endpoint } from '../oracle/endpoint.ts';
import { type FailsafeEntry, type Names, type OracleConfig, protocolNumbers } from '../oracle/flow.ts';
import { toGroupTest } from '../oracle/group.ts';
import {
  apiGroupOf,
  type GroupManifest,
  type IPBlock,
  type PeerManifest,
  type PolicyManifest,
  type PortManifest,
  type ProtocolManifest,
  policyApiVersions,
  type RuleManifest,
} from '../oracle/manifest.ts';
import { groupNumber, resolveName } from '../oracle/peer.ts';
import { type OracleRule, toRules } from '../oracle/rule.ts';
import { shift } from './address.ts';

const directions = ['ingress', 'egress'] as const;

/**
 * The default's ports, and where the API server listens, for flows in both directions; whether they
 * are on the list is the oracle's to say.
 */
const defaultFailsafe: FailsafeEntry[] = [
  { protocol: 'TCP', port: 6443, peers: 'nodes' },
  { protocol: 'TCP', port: 2379, endPort: 2380, peers: 'nodes' },
  { protocol: 'TCP', port: 10250, peers: 'nodes' },
  { protocol: 'TCP', port: 6443, peers: 'controllers' },
  { protocol: 'TCP', port: 8443, peers: 'controllers' },
  { protocol: 'TCP', port: 9443, peers: 'controllers' },
  { protocol: 'TCP', port: 53, peers: 'any' },
  { protocol: 'UDP', port: 53, peers: 'any' },
];

/** The items of platforms that Nodes are drawn with (cluster.ts). */
const platformAims: Pick<Aim, 'ports' | 'numbers'>[] = [
  { ports: [{ protocol: 'UDP', port: 8472 }] },
  { ports: [{ protocol: 'UDP', port: 51820 }] },
  { ports: [{ protocol: 'TCP', port: 10349, endPort: 10351 }] },
  { ports: [{ protocol: 'TCP', port: 4240 }] },
  ...[4, 41, 47, 50, 51, 112].map((number) => ({ ports: [], numbers: [number] })),
];

/** What one rule or failsafe entry asks about: where to send a flow so that it comes close. */
export interface Aim {
  direction: 'ingress' | 'egress';
  traffic: 'Host' | 'NodePort';
  ports: PortManifest[];
  protocols: ProtocolManifest[];
  /** Other IP protocols. */
  numbers?: number[];
  /** Addresses at the edges of its peers, inside and just outside; empty where any address does. */
  addresses: string[];
  /** Link groups of its peers, by number and by name. */
  interfaceGroups: (number | string)[];
  /** Exact destinations, in the stead of addresses and ports: what `toServices` stands for. */
  endpoints: { address: string; port: PortManifest }[];
}

/** What a scenario's policies are read against. */
interface AimContext {
  objects: object[];
  cluster: Cluster;
  groups: GroupManifest[];
  names: Names;
  config: OracleConfig;
}

/** An aim at nothing in particular. */
export function noAim(direction: Aim['direction']): Aim {
  const lists = { ports: [], protocols: [], addresses: [], interfaceGroups: [], endpoints: [] };
  return { direction, traffic: 'Host', ...lists };
}

/**
 * The aims of all rules; those of the rules that apply to the Node twice more, since only they
 * decide anything.
 */
export function toRuleAims(context: AimContext, policies: PolicyManifest[], node: string): Aim[] {
  const { cluster } = context;
  const known = knownAddresses(cluster);
  const toAim = ({ direction, traffic, manifest }: AimedRule): Aim => {
    const peers = (direction === 'ingress' ? manifest.from : manifest.to) ?? [];
    return {
      direction,
      traffic,
      ports: manifest.ports ?? [],
      protocols: manifest.protocols ?? [],
      addresses: peers.flatMap((peer) => peerAddresses(peer, known, context)),
      interfaceGroups: peers.flatMap((peer) => spellings(peer.interfaceGroup, context.config)),
      endpoints: toEndpoints(manifest, cluster),
    };
  };
  const all = policies.flatMap(({ spec }) =>
    directions.flatMap((direction) =>
      (spec[direction] ?? []).map((manifest): AimedRule => {
        return { direction, traffic: spec.traffic === 'NodePort' ? 'NodePort' : 'Host', manifest };
      }),
    ),
  );
  const found = cluster.nodes.find(({ name }) => name === node);
  const applied = found === undefined ? [] : toRules({ ...context, node: found }).map(toAim);
  return [...all.map(toAim), ...applied, ...applied];
}

type AimedRule = Pick<OracleRule, 'direction' | 'traffic' | 'manifest'>;

/**
 * The aims of the failsafe lists; the default list's ports where the configuration replaces none.
 */
export function toFailsafeAims(cluster: Cluster, config: OracleConfig): Aim[] {
  const { pods, apiServerPorts } = cluster;
  const controllers = pods.filter(({ namespace }) => namespace === 'nodewall-system');
  const nodes = addressesOf(cluster.nodes);
  const addresses = { nodes, controllers: addressesOf(controllers), any: nodes };
  const apiServer = apiServerPorts.flatMap((port): FailsafeEntry[] => [
    { protocol: 'TCP', port, peers: 'nodes' },
    { protocol: 'TCP', port, peers: 'controllers' },
  ]);
  const defaults = [...defaultFailsafe, ...apiServer];
  const hasPlatform = cluster.nodes.some(({ platform }) => platform !== '');
  return directions.flatMap((direction) => [
    ...(config.failsafe?.[direction] ?? defaults).map(({ peers, ...port }) => ({
      ...noAim(direction),
      ports: [port],
      addresses: Array.isArray(peers) ? peers.flatMap(cidrEdges) : addresses[peers],
    })),
    ...(hasPlatform ? platformAims : []).map((aim) => ({ ...noAim(direction), ...aim, addresses: nodes })),
  ]);
}

function addressesOf(members: { addresses: Address[] }[]): string[] {
  return members.flatMap(({ addresses }) => addresses.map(formatAddress));
}

/** Every address that Nodes and pods have. */
export function knownAddresses({ nodes, pods }: Cluster): string[] {
  return addressesOf([...nodes, ...pods]);
}

/** The addresses of one Node, as the oracle reads them. */
export function addressesOfNode(objects: object[], name: string): string[] {
  const node = toCluster(objects).nodes.find((item) => item.name === name);
  return (node?.addresses ?? []).map(formatAddress);
}

function peerAddresses(peer: PeerManifest, known: string[], context: AimContext): string[] {
  if (peer.ipBlock !== undefined) return blockEdges(peer.ipBlock);
  if (peer.interfaceGroup !== undefined) return [];
  if (peer.fqdn !== undefined) return resolveName(peer.fqdn, context.names).flatMap(around);
  return peer.group === undefined ? known : groupAddresses(peer.group, known, context);
}

/**
 * Of every group of that name, in whichever API group: a flow towards the wrong one is a near miss.
 */
function groupAddresses(name: string, known: string[], context: AimContext): string[] {
  const { objects, cluster, groups } = context;
  const named = (one: string) => groups.filter(({ metadata }) => metadata.name === one);
  const all = named(name).flatMap((group) => [group, ...(group.spec.childGroups ?? []).flatMap(named)]);
  const tests = policyApiVersions.map((version) => toGroupTest(objects, cluster, name, apiGroupOf(version)));
  const isMember = (text: string) => {
    const address = parseAddress(text);
    return address !== undefined && tests.some((test) => test(address));
  };
  return [...known.filter(isMember), ...all.flatMap(({ spec }) => (spec.ipBlocks ?? []).flatMap(blockEdges))];
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
