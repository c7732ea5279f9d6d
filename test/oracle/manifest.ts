/** Labels of an object. */
export type Labels = Record<string, string>;

/** A Kubernetes LabelSelector. */
export interface LabelSelector {
  matchLabels?: Labels;
  matchExpressions?: { key: string; operator: string; values?: string[] }[];
}

/** The metadata every manifest carries. */
interface Metadata {
  name: string;
  namespace?: string;
  labels?: Labels;
  annotations?: Record<string, string>;
}

/** Any Kubernetes object as YAML says it. */
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: Metadata;
}

/** A core v1 Node, narrowed to what SEMANTICS reads. */
export interface NodeManifest extends Manifest {
  spec?: { podCIDRs?: string[] };
  status?: { addresses?: { type: string; address: string }[] };
}

/** A core v1 Pod, narrowed to what SEMANTICS reads. */
export interface PodManifest extends Manifest {
  spec?: { hostNetwork?: boolean; serviceAccountName?: string; nodeName?: string };
  status?: { phase?: string; podIP?: string; podIPs?: { ip: string }[] };
}

/** A Tier of either API group. */
export interface TierManifest extends Manifest {
  spec: { priority: number; description?: string };
}

/** A core v1 Service, narrowed to what SEMANTICS reads. */
export interface ServiceManifest extends Manifest {
  spec?: {
    selector?: Labels;
    clusterIP?: string;
    clusterIPs?: string[];
    ports?: { protocol?: string; port: number }[];
  };
}

/** A discovery.k8s.io/v1 EndpointSlice, narrowed to what SEMANTICS reads. */
export interface EndpointSliceManifest extends Manifest {
  addressType?: string;
  endpoints?: { addresses: string[]; conditions?: { ready?: boolean | null } }[];
  ports?: { protocol?: string; port?: number | null }[];
}

/** A Service by name. */
export interface ServiceReference {
  name: string;
  namespace: string;
}

/** A range of addresses less some of them. */
export interface IPBlock {
  cidr: string;
  except?: string[];
}

/** A ClusterGroup of either API group. */
export interface GroupManifest extends Manifest {
  spec: {
    podSelector?: LabelSelector;
    namespaceSelector?: LabelSelector;
    nodeSelector?: LabelSelector;
    ipBlocks?: IPBlock[];
    serviceReference?: ServiceReference;
    childGroups?: string[];
  };
}

/** One item of `from` or `to`. */
export interface PeerManifest {
  ipBlock?: IPBlock;
  nodeSelector?: LabelSelector;
  podSelector?: LabelSelector;
  namespaceSelector?: LabelSelector;
  serviceAccount?: { name: string; namespace: string };
  group?: string;
  fqdn?: string;
  interfaceGroup?: number | string;
}

/** One item of `ports`. */
export interface PortManifest {
  protocol?: string;
  port?: number;
  endPort?: number;
  sourcePort?: number;
  sourceEndPort?: number;
}

/** One item of `protocols`. */
export interface ProtocolManifest {
  icmp?: { icmpType?: number; icmpCode?: number } | null;
  icmpv6?: { icmpType?: number; icmpCode?: number } | null;
  igmp?: { igmpType?: number; groupAddress?: string } | null;
  protocol?: string | number;
  groupAddress?: string;
}

/** One item of `appliedTo`. */
export interface AppliedToManifest {
  nodeSelector?: LabelSelector;
  group?: string;
}

/** One item of `ingress` or `egress`. */
export interface RuleManifest {
  name?: string;
  action: string;
  from?: PeerManifest[];
  to?: PeerManifest[];
  ports?: PortManifest[];
  protocols?: ProtocolManifest[];
  toServices?: ServiceReference[];
  appliedTo?: AppliedToManifest[];
  enableLogging?: boolean;
  logLabel?: string;
}

/** A ClusterNetworkPolicy of either API group. */
export interface PolicyManifest extends Manifest {
  spec: {
    tier?: string;
    priority: number;
    appliedTo?: AppliedToManifest[];
    ingress?: RuleManifest[];
    egress?: RuleManifest[];
    mode?: string;
    traffic?: string;
    established?: string;
  };
}

/**
 * The apiVersions whose ClusterNetworkPolicies, Tiers and ClusterGroups are read; the first is
 * ours.
 */
export const policyApiVersions: readonly string[] = ['nodewall.io/v1alpha1', 'crd.antrea.io/v1beta1'];

/** The API group in `group/version`; '' for core v1. */
export function apiGroupOf(apiVersion: string): string {
  return apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '';
}

/**
 * The object of that name in the own API group, else in the other one: how policies find Tiers and
 * groups.
 */
export function findNamed(
  objects: readonly object[],
  kind: string,
  name: string,
  ownGroup: string,
): Manifest | undefined {
  const named = objectsOfKind(objects, policyApiVersions, kind).filter((one) => one.metadata.name === name);
  return named.find((one) => apiGroupOf(one.apiVersion) === ownGroup) ?? named[0];
}

/** Every object of the kind, `kind: List` opened up. */
export function objectsOfKind(objects: readonly object[], apiVersions: readonly string[], kind: string) {
  const found: Manifest[] = [];
  for (const object of objects as (Manifest & { items?: object[] })[]) {
    if (object.kind === 'List') found.push(...objectsOfKind(object.items ?? [], apiVersions, kind));
    else if (object.kind === kind && apiVersions.includes(object.apiVersion)) found.push(object);
  }
  return found;
}

/**
 * Throws when the value has a field that the oracle does not evaluate (yet): nothing is ever
 * ignored.
 */
export function assertOnlyFields(value: object, fields: readonly string[], where: string): void {
  for (const field of Object.keys(value)) {
    if (!fields.includes(field)) throw new Error(`the oracle does not evaluate ${where}.${field}`);
  }
}
