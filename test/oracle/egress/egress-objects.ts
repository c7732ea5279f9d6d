import {
  type Address,
  type AddressRange,
  type Family,
  inRange,
  parseAddress,
  parseCidr,
} from '../address.ts';
import {
  apiGroupOf,
  assertOnlyFields,
  type LabelSelector,
  type Labels,
  type Manifest,
  objectsOfKind,
} from '../manifest.ts';

/** An EgressGateway as the oracle judges by it. */
export interface Gateway {
  readonly apiGroup: string;
  readonly name: string;
  readonly nodeSelector: LabelSelector;
  readonly pool: readonly AddressRange[];
  /** The addresses of allocation Shared, where the object says them. */
  readonly defaults: readonly Address[];
  readonly source: 'Floating' | 'Node';
  readonly choice: 'Failover' | 'Spread';
  /** Undefined: no namespace's EgressPolicies. */
  readonly allowedNamespaces: LabelSelector | undefined;
  readonly isDefault: boolean;
  /** The nodes of which the status speaks. */
  readonly ready: ReadonlyMap<string, boolean>;
  readonly slots: readonly { readonly node: string; readonly addresses: readonly Address[] }[];
}

/** An item of appliedTo; its fields are AND-ed. */
export interface Selection {
  readonly podSelector?: LabelSelector;
  readonly namespaceSelector?: LabelSelector;
  readonly podSubnets?: readonly AddressRange[];
}

/** An EgressPolicy, or a ClusterEgressPolicy (`namespace` is undefined then). */
export interface Policy {
  readonly apiGroup: string;
  readonly namespace: string | undefined;
  readonly name: string;
  readonly stage: 'Override' | 'Namespace' | 'Default';
  readonly priority: number;
  readonly appliedTo: readonly Selection[];
  readonly gateway: string | undefined;
  readonly to: readonly AddressRange[] | undefined;
  readonly except: readonly AddressRange[];
  readonly action: 'Gateway' | 'Direct' | 'Drop';
  /** Node: the node's own address, whatever the gateway's source. */
  readonly allocation: 'Shared' | 'Dedicated' | 'Fixed' | 'Node';
  readonly fixed: readonly Address[];
  readonly count: number;
  readonly directIfUnavailable: boolean;
  readonly isAudit: boolean;
  /** What it has by its status. */
  readonly has: readonly Address[];
}

/** The name of a policy in an answer. */
export function nameOf({ namespace, name }: Policy): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

const VERSION = 'nodewall.io/v1alpha1';

interface GatewayManifest extends Manifest {
  spec: {
    nodeSelector?: LabelSelector;
    addresses?: { pools?: { ranges?: string[] }[] };
    source?: string;
    choice?: string;
    announce?: string;
    allowedNamespaces?: LabelSelector;
    default?: boolean;
  };
  status?: {
    nodes?: { name: string; ready: boolean }[];
    slots?: { name: string; node?: string; epoch?: number; addresses?: string[] }[];
  };
}

/** The gateways that are right in themselves, however many there are of one name. */
export function toGateways(objects: readonly object[]): Gateway[] {
  const manifests = objectsOfKind(objects, [VERSION], 'EgressGateway') as GatewayManifest[];
  return manifests.flatMap((manifest) => attempt(() => toGateway(manifest)));
}

function toGateway({ apiVersion, metadata, spec, status }: GatewayManifest): Gateway {
  assertOnlyFields(
    spec,
    [
      ...['nodeSelector', 'addresses', 'source', 'choice', 'announce', 'allowedNamespaces', 'default'],
      ...['probes', 'failover', 'interface'],
    ],
    'EgressGateway.spec',
  );
  const ranges = (spec.addresses?.pools ?? []).flatMap((pool) => pool.ranges ?? []);
  const source = oneOf(['Floating', 'Node'], spec.source ?? (ranges.length > 0 ? 'Floating' : 'Node'));
  const choice = oneOf(['Failover', 'Spread'], spec.choice ?? 'Failover');
  const selector = spec.nodeSelector ?? {};
  if (Object.keys(selector).length === 0) throw new Wrong('nodeSelector: must select by something');
  if (source === 'Floating' && ranges.length === 0) throw new Wrong('source: Floating needs a pool');
  if (source === 'Node' && ranges.length > 0) throw new Wrong('source: Node has no pool');
  if (source === 'Floating' && choice === 'Spread') throw new Wrong('choice: Spread is of source Node');
  return {
    apiGroup: apiGroupOf(apiVersion),
    name: metadata.name,
    nodeSelector: selector,
    pool: ranges.map((text) => wrongIf(() => parseRange(text))),
    defaults: [],
    source,
    choice,
    allowedNamespaces: spec.allowedNamespaces,
    isDefault: spec.default === true,
    ready: new Map((status?.nodes ?? []).map(({ name, ready }) => [name, ready])),
    slots: (status?.slots ?? []).map(({ node = '', addresses = [] }) => ({
      node,
      addresses: readable(addresses),
    })),
  };
}

interface PolicyManifest extends Manifest {
  spec: {
    stage?: string;
    appliedTo?: { podSelector?: LabelSelector; namespaceSelector?: LabelSelector; podSubnets?: string[] }[];
    gateway?: string;
    to?: string[];
    except?: string[];
    action?: string;
    address?: { allocation?: string; ipv4?: string; ipv6?: string; count?: number };
    whenUnavailable?: string;
    priority?: number;
    mode?: string;
  };
  status?: { addresses?: string[] };
}

/** The policies of both kinds that are right in themselves; the others are left out. */
export function toPolicies(objects: readonly object[]): Policy[] {
  const kinds = ['EgressPolicy', 'ClusterEgressPolicy'];
  const manifests = kinds.flatMap((kind) => objectsOfKind(objects, [VERSION], kind)) as PolicyManifest[];
  return manifests.flatMap((manifest) => attempt(() => toPolicy(manifest)));
}

function toPolicy(manifest: PolicyManifest): Policy {
  const { apiVersion, metadata, spec, status } = manifest;
  const isCluster = manifest.kind === 'ClusterEgressPolicy';
  assertOnlyFields(
    spec,
    [
      ...['stage', 'appliedTo', 'gateway', 'to', 'except', 'action', 'address'],
      ...['whenUnavailable', 'priority', 'mode', 'established'],
    ],
    `${manifest.kind}.spec`,
  );
  if (!isCluster && spec.stage !== undefined) throw new Wrong('stage: only of a ClusterEgressPolicy');
  const { allocation = 'Shared', ipv4, ipv6, count = 1 } = spec.address ?? {};
  const fixed = [ipv4, ipv6].filter((text) => text !== undefined);
  if ((allocation === 'Fixed') !== fixed.length > 0) throw new Wrong('address: Fixed names addresses');
  if ((spec.appliedTo ?? []).length === 0) throw new Wrong('appliedTo: is empty');
  return {
    apiGroup: apiGroupOf(apiVersion),
    namespace: isCluster ? undefined : (metadata.namespace ?? 'default'),
    name: metadata.name,
    stage: isCluster ? oneOf(['Override', 'Default'], spec.stage ?? 'Default') : 'Namespace',
    priority: spec.priority ?? 1000,
    appliedTo: (spec.appliedTo ?? []).map((item) => toSelection(item, isCluster)),
    gateway: spec.gateway,
    // An empty list is as if absent (SEMANTICS section 5).
    to: (spec.to ?? []).length === 0 ? undefined : cidrs(spec.to),
    except: cidrs(spec.except),
    action: oneOf(['Gateway', 'Direct', 'Drop'], spec.action ?? 'Gateway'),
    allocation: oneOf(['Shared', 'Dedicated', 'Fixed'], allocation),
    fixed: readable(fixed),
    count,
    directIfUnavailable: oneOf(['Drop', 'Direct'], spec.whenUnavailable ?? 'Drop') === 'Direct',
    isAudit: oneOf(['Enforce', 'Audit'], spec.mode ?? 'Enforce') === 'Audit',
    has: readable(status?.addresses ?? []),
  };
}

type Applied = NonNullable<PolicyManifest['spec']['appliedTo']>[number];

function toSelection(item: Applied, isCluster: boolean): Selection {
  const { podSelector, namespaceSelector, podSubnets, ...rest } = item;
  if (Object.keys(rest).length > 0) throw new Wrong('appliedTo: an unknown field');
  if (podSubnets !== undefined) {
    if (!isCluster || podSelector !== undefined || namespaceSelector !== undefined || podSubnets.length === 0)
      throw new Wrong('appliedTo: podSubnets are alone, and of a ClusterEgressPolicy');
    return { podSubnets: cidrs(podSubnets) };
  }
  if (namespaceSelector === undefined && podSelector === undefined) throw new Wrong('appliedTo: empty item');
  if (namespaceSelector !== undefined && !isCluster) throw new Wrong('appliedTo: of other namespaces');
  return {
    ...(podSelector === undefined ? {} : { podSelector }),
    ...(namespaceSelector === undefined ? {} : { namespaceSelector }),
  };
}

/** An object is wrong in itself. */
class Wrong extends Error {}

/** The object, or nothing if it is wrong in itself. */
function attempt<T>(read: () => T): T[] {
  try {
    return [read()];
  } catch (error) {
    if (error instanceof Wrong) return [];
    throw error;
  }
}

function wrongIf<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new Wrong((error as Error).message);
  }
}

function oneOf<T extends string>(known: readonly T[], value: string): T {
  const found = known.find((one) => one === value);
  if (found === undefined) throw new Wrong(`${value}: must be one of ${known.join(', ')}`);
  return found;
}

function cidrs(texts: readonly string[] = []): AddressRange[] {
  return texts.map((text) => wrongIf(() => parseCidr(text.includes('/') ? text : `${text}/999`)));
}

function readable(texts: readonly string[]): Address[] {
  return texts.map(parseAddress).filter((address) => address !== undefined);
}

/** The labels of a namespace; one that no manifest declares has its name alone. */
export function namespaceLabels(objects: readonly object[]): (name: string) => Labels {
  const declared = new Map<string, Labels>();
  for (const { metadata } of objectsOfKind(objects, ['v1'], 'Namespace')) {
    declared.set(metadata.name, metadata.labels ?? {});
  }
  return (name) => ({ ...declared.get(name), 'kubernetes.io/metadata.name': name });
}

/** The addresses of a range of a pool: `IP`, `IP-IP` or CIDR (docs/egress.md). */
export function parseRange(text: string): AddressRange {
  if (text.includes('/')) return usable(text);
  const [first, last = first] = text.split('-').map((part) => parseAddress(part.trim()));
  if (first === undefined || last === undefined || first.family !== last.family || first.value > last.value) {
    throw new Error(`not a range of addresses: ${text}`);
  }
  return { family: first.family, first: first.value, last: last.value };
}

/** An IPv4 CIDR up to /30 gives neither its network address nor its broadcast address. */
function usable(cidr: string): AddressRange {
  const range = parseCidr(cidr);
  const hasBroadcast = range.family === 4 && range.last - range.first >= 3n;
  return hasBroadcast ? { ...range, first: range.first + 1n, last: range.last - 1n } : range;
}

export function isInAny(ranges: readonly AddressRange[], address: Address): boolean {
  return ranges.some((range) => inRange(range, address));
}

export function ofFamily(ranges: readonly AddressRange[], family: Family): AddressRange[] {
  return ranges.filter((range) => range.family === family);
}

/** How many addresses the ranges have together; an address in two of them counts once. */
export function countOf(ranges: readonly AddressRange[]): bigint {
  let count = 0n;
  let end = -1n;
  for (const { first, last } of [...ranges].sort((a, b) => (a.first < b.first ? -1 : 1))) {
    const from = first > end ? first : end + 1n;
    if (last >= from) count += last - from + 1n;
    if (last > end) end = last;
  }
  return count;
}
