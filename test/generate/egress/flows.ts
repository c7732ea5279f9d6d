import type { Address, AddressRange } from '../../oracle/address.ts';
import { bitsOf, formatAddress, parseAddress, parseCidr } from '../../oracle/address.ts';
import type { EgressConfig, EgressFlow } from '../../oracle/egress/egress-cluster.ts';

/** Addresses at the edges of what is inside whatever the cluster is, and outside of all. */
const ALWAYS = [
  ...['127.0.0.1', '169.253.255.255', '169.254.0.0', '169.254.255.255', '169.255.0.0'],
  ...['223.255.255.255', '224.0.0.0', '239.255.255.255', '240.0.0.0', '1.1.1.1', '8.8.8.8', '172.20.0.9'],
  ...['::1', '::2', 'fe7f:ffff::', 'fe80::', 'febf:ffff::', 'fec0::', 'ff00::', 'ff02::1', '2606:4700::1'],
];

/** Sources that are no pod's and in no pod network. */
const STRANGERS = ['172.20.0.1', '10.200.0.1', 'fd77::1'];

/**
 * Every source that can make a difference with every destination that can: pods by name and
 * address, Nodes, first and last addresses of all networks in the objects with their neighbours.
 */
export function edgeFlows(objects: readonly object[], config: EgressConfig): EgressFlow[] {
  const texts = [...textsIn(objects), ...textsIn([config])];
  const networks = texts.filter((text) => /^(10\.1\.|10\.9\.|172\.20|fd01|fd09)/.test(text));
  const sources = [
    ...podsIn(objects).flatMap(({ addresses }) => addresses),
    ...networks.flatMap(edgesOf),
    ...texts.filter((text) => /^(10\.0\.0\.|fd00::)\d+$/.test(text)),
    ...STRANGERS,
  ];
  return crossed(objects, sources, [...ALWAYS, ...texts.flatMap(edgesOf)]);
}

/** Those of the pods towards the edges of what policies name: most of them are steered. */
export function policyFlows(objects: readonly object[]): EgressFlow[] {
  const policies = (objects as PodLike[]).filter(({ kind }) =>
    /^Egress(Cluster)?Policy$|^ClusterEgressPolicy$/.test(kind),
  );
  const sources = podsIn(objects).flatMap(({ addresses }) => addresses);
  return crossed(objects, sources, ['1.1.1.1', '2606:4700::1', ...textsIn(policies).flatMap(edgesOf)]);
}

function crossed(
  objects: readonly object[],
  sources: readonly string[],
  destinations: readonly string[],
): EgressFlow[] {
  const named = podsIn(objects).filter(({ isFinished }) => !isFinished);
  return unique(destinations).flatMap((dst) => [
    ...named.map(({ name }): EgressFlow => ({ traffic: 'Egress', pod: name, dst })),
    ...unique(sources)
      .filter((src) => src.includes(':') === dst.includes(':'))
      .map((src): EgressFlow => ({ traffic: 'Egress', src, dst })),
  ]);
}

/** So many of the flows, spread over all of them. */
export function someOf<T>(list: readonly T[], count: number, offset: number): T[] {
  if (list.length <= count) return [...list];
  // A step that shares no divisor with the length meets each item once.
  const step = [7919, 7907, 7901].find((prime) => list.length % prime !== 0) ?? 1;
  return Array.from({ length: count }, (_, i) => list[(offset + i * step) % list.length] as T);
}

/** Every text in the objects. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return value.split(',').map((part) => part.trim());
  if (typeof value !== 'object' || value === null) return [];
  return unique(Object.values(value).flatMap(textsIn));
}

/** First and last addresses of a network or range, and the two beside them. */
function edgesOf(text: string): string[] {
  const range = rangeOf(text);
  if (range === undefined) return [];
  const { family, first, last } = range;
  const end = (1n << BigInt(bitsOf(family))) - 1n;
  const values = [first - 1n, first, first + 1n, last - 1n, last, last + 1n];
  const valid = values.filter((value) => value >= 0n && value <= end);
  return valid.map((value) => formatAddress({ family, value }));
}

function rangeOf(text: string): AddressRange | undefined {
  if (/^[\da-f:.]+\/\d+$/.test(text)) return parseCidr(text);
  const [first, last = first] = text.split('-').map((part): Address | undefined => parseAddress(part));
  if (first === undefined || last === undefined) return undefined;
  return { family: first.family, first: first.value, last: last.value };
}

interface NamedPod {
  readonly name: string;
  readonly isFinished: boolean;
  readonly addresses: readonly string[];
}

function podsIn(objects: readonly object[]): NamedPod[] {
  const pods = (objects as PodLike[]).filter(({ kind }) => kind === 'Pod');
  return pods.map(({ metadata, status }) => ({
    name: `${metadata.namespace}/${metadata.name}`,
    isFinished: status?.phase === 'Succeeded' || status?.phase === 'Failed',
    addresses: textsIn(status).filter((text) => parseAddress(text) !== undefined),
  }));
}

interface PodLike {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly status?: { readonly phase?: string };
}

function unique<T>(list: readonly T[]): T[] {
  return [...new Set(list)];
}
