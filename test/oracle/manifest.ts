/** Labels of an object. */
export type Labels = Record<string, string>;

/** A Kubernetes LabelSelector. */
export interface LabelSelector {
  matchLabels?: Labels;
  matchExpressions?: { key: string; operator: string; values?: string[] }[];
}

/** The metadata every manifest carries. */
export interface Metadata {
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
  status?: { addresses?: { type: string; address: string }[] };
}

/** A core v1 Pod, narrowed to what SEMANTICS reads. */
export interface PodManifest extends Manifest {
  spec?: { hostNetwork?: boolean; serviceAccountName?: string };
  status?: { phase?: string; podIP?: string; podIPs?: { ip: string }[] };
}

/** A Tier of either API group. */
export interface TierManifest extends Manifest {
  spec: { priority: number; description?: string };
}

/** One item of `from` or `to`. */
export interface PeerManifest {
  ipBlock?: { cidr: string; except?: string[] };
  nodeSelector?: LabelSelector;
  podSelector?: LabelSelector;
  namespaceSelector?: LabelSelector;
  serviceAccount?: { name: string; namespace: string };
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
}

/** One item of `appliedTo`. */
export interface AppliedToManifest {
  nodeSelector?: LabelSelector;
}

/** One item of `ingress` or `egress`. */
export interface RuleManifest {
  name?: string;
  action: string;
  from?: PeerManifest[];
  to?: PeerManifest[];
  ports?: PortManifest[];
  protocols?: ProtocolManifest[];
  toServices?: object[];
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
  };
}

/** The apiVersions whose ClusterNetworkPolicies and Tiers are read. */
export const policyApiVersions: readonly string[] = ['nodewall.io/v1alpha1', 'crd.antrea.io/v1beta1'];

/** The API group in `group/version`; '' for core v1. */
export function apiGroupOf(apiVersion: string): string {
  return apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '';
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

/** Throws when the value has a field that the oracle does not evaluate (yet): nothing is ever ignored. */
export function assertOnlyFields(value: object, fields: readonly string[], where: string): void {
  for (const field of Object.keys(value)) {
    if (!fields.includes(field)) throw new Error(`the oracle does not evaluate ${where}.${field}`);
  }
}
