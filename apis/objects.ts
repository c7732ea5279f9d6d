/**
 * Values of stage 1: Kubernetes objects, validated and narrowed to the fields that nodewall uses.
 * Names and meanings of fields are those of Kubernetes and Antrea.
 */

import type { EgressGateway, EgressObjects, EgressPolicy, InsideNetworks } from './egress/objects.ts';
import type { LabelSelector, Labels } from './label-selector.ts';
import type { PlatformEntry } from './platform.ts';
import type { RolloutDecision, RolloutShare, RolloutSpec } from './rollout.ts';

export type { LabelSelector, LabelSelectorRequirement, Labels } from './label-selector.ts';

/** The API groups whose ClusterNetworkPolicy and Tier objects are read. */
export const API_GROUPS = ['crd.antrea.io', 'nodewall.io'] as const;
export type ApiGroup = (typeof API_GROUPS)[number];
/** The versions in which their objects are read. */
export const API_VERSIONS: Readonly<Record<ApiGroup, string>> = {
  'nodewall.io': 'v1alpha1',
  'crd.antrea.io': 'v1beta1',
};

/** Annotation of a Node that is drained of egress gateways; `false` is as if it were absent. */
export const DRAIN_ANNOTATION = 'nodewall.io/egress-drain';

/**
 * The file of the agent's state directory that has the private key of Node.tunnelKey. Without it
 * the agent makes another key at its start.
 */
export const WIREGUARD_KEY_FILE = 'wireguard-key';

/**
 * A Node: `addresses` are its InternalIP and ExternalIP addresses and those of the annotation
 * `nodewall.io/addresses`.
 */
export interface Node {
  readonly kind: 'Node';
  readonly name: string;
  readonly labels: Labels;
  readonly addresses: readonly string[];
  /**
   * Further addresses of the Node as a peer, which its agent reported
   * (controller/index/host-addresses.ts). Absent if there are none, and in every object as it is
   * read.
   */
  readonly reportedAddresses?: readonly string[];
  /**
   * The public key of its WireGuard device, which its agent reported
   * (controller/index/host-addresses.ts). Absent if there is none, and in every object as it is
   * read.
   */
  readonly tunnelKey?: string;
  /**
   * Addresses outside the configuration's nodeCIDRs, which do not count; absent if there are none.
   */
  readonly ignoredAddresses?: readonly string[];
  /** It needs these to carry pods, as its annotation says; absent: it has no such annotation. */
  readonly platform?: readonly PlatformEntry[];
  /**
   * Addresses of the object that do not count because something else has them, each with its holder
   * (controller/index/accepted-addresses.ts). Absent if there are none, and in every object as it
   * is read.
   */
  readonly claimedAddresses?: readonly string[];
  /**
   * The pod networks of the Node (spec.podCIDRs), used for warnings and for egress gateways; absent
   * if the Node has none.
   */
  readonly podCIDRs?: readonly string[];
  /**
   * The InternalIP addresses that count, in their order: the tunnel of egress gateways ends at the
   * first, and source Node uses them. Read only where egress objects are; absent if there are none.
   */
  readonly internalAddresses?: readonly string[];
  /**
   * When the Node was made (ISO 8601; '': not known), if it has the taint that the configuration
   * names (startupTaint). Absent: it has not.
   */
  readonly startsSince?: string;
  /** Read only where egress objects are; absent if the object has none (manifests). */
  readonly uid?: string;
  /**
   * Why the Node should be no egress gateway: its condition Ready, spec.unschedulable, or
   * DRAIN_ANNOTATION. Read only where egress objects are, and used only by a controller that writes
   * their statuses.
   */
  readonly unready?: 'NotReady' | 'Cordoned' | 'Draining';
}

export interface Namespace {
  readonly kind: 'Namespace';
  readonly name: string;
  readonly labels: Labels;
}

/** A Pod; narrowing leaves out finished pods. One with hostNetwork is no peer of policies. */
export interface Pod {
  readonly kind: 'Pod';
  readonly namespace: string;
  readonly name: string;
  readonly labels: Labels;
  readonly serviceAccount: string;
  /** Empty for a hostNetwork pod. */
  readonly addresses: readonly string[];
  /** The pod's Node; read only where egress objects are; absent: not scheduled. */
  readonly node?: string;
  /** Such a pod has no addresses of its own. */
  readonly hostNetwork?: true;
  /** The Node's, where hostNetwork: for endpoints of Services and the failsafe list alone. */
  readonly hostAddresses?: readonly string[];
  /**
   * As the container runtime has it; only where egress objects are read; absent: none (manifests).
   */
  readonly uid?: string;
}

export interface Tier {
  readonly kind: 'Tier';
  readonly apiGroup: ApiGroup;
  readonly name: string;
  /** 1 to 253; lower is evaluated first. */
  readonly priority: number;
}

/** Exactly one of the two. */
export interface AppliedTo {
  readonly nodeSelector?: LabelSelector;
  /** Name of a ClusterGroup that selects Nodes. */
  readonly group?: string;
}

export interface IPBlock {
  readonly cidr: string;
  readonly except?: readonly string[];
}

/** One item of `from` or `to`. */
export type NetworkPolicyPeer =
  | { readonly ipBlock: IPBlock }
  | { readonly nodeSelector: LabelSelector }
  /** At least one of the two. */
  | { readonly podSelector?: LabelSelector; readonly namespaceSelector?: LabelSelector }
  | { readonly serviceAccount: NamespacedName }
  /** Name of a ClusterGroup. */
  | { readonly group: string }
  /** Egress only; lower case, no dot at the end. `*.example.com` is one or more leading labels. */
  | { readonly fqdn: string }
  /** A link group's number, or its name in the agent's configuration. */
  | { readonly interfaceGroup: string | number };

type FieldOf<T> = T extends unknown ? keyof T : never;
export type PeerKind = FieldOf<NetworkPolicyPeer>;

export interface NamespacedName {
  readonly name: string;
  readonly namespace: string;
}

export interface NetworkPolicyPort {
  readonly protocol?: 'TCP' | 'UDP' | 'SCTP';
  readonly port?: number;
  readonly endPort?: number;
  readonly sourcePort?: number;
  readonly sourceEndPort?: number;
}

/** One item of `protocols`; exactly one of icmp, icmpv6, igmp and protocol. */
export interface NetworkPolicyProtocol {
  readonly icmp?: { readonly icmpType?: number; readonly icmpCode?: number };
  readonly icmpv6?: { readonly icmpType?: number; readonly icmpCode?: number };
  readonly igmp?: { readonly igmpType?: number; readonly groupAddress?: string };
  /** A name of ip-protocols.ts, or a number. */
  readonly protocol?: string | number;
  /** With `protocol`: the packet's destination, a multicast address. */
  readonly groupAddress?: string;
}

export type RuleAction = 'Allow' | 'Drop' | 'Reject' | 'Pass';
export type Direction = 'ingress' | 'egress';
export type PolicyMode = 'Enforce' | 'Audit';
export type PolicyTraffic = 'Host' | 'NodePort';
type PolicyEstablished = 'Keep' | 'Recheck';

export interface Rule {
  /** Unique in the policy; generated if absent (controller/compile/policy-rules.ts). */
  readonly name?: string;
  readonly action: RuleAction;
  readonly from?: readonly NetworkPolicyPeer[];
  readonly to?: readonly NetworkPolicyPeer[];
  /** Egress only; excludes `to`, `ports` and `protocols`. */
  readonly toServices?: readonly NamespacedName[];
  readonly ports?: readonly NetworkPolicyPort[];
  readonly protocols?: readonly NetworkPolicyProtocol[];
  readonly enableLogging?: boolean;
  readonly logLabel?: string;
  readonly appliedTo?: readonly AppliedTo[];
}

export interface ClusterNetworkPolicySpec {
  readonly tier?: string;
  readonly priority: number;
  readonly appliedTo?: readonly AppliedTo[];
  readonly ingress?: readonly Rule[];
  readonly egress?: readonly Rule[];
  readonly mode?: PolicyMode;
  readonly traffic?: PolicyTraffic;
  readonly established?: PolicyEstablished;
  /** Without effect on the rules of a node: in a cluster the controller applies it. */
  readonly rollout?: RolloutSpec;
}

export interface ClusterNetworkPolicy {
  readonly kind: 'ClusterNetworkPolicy';
  readonly apiGroup: ApiGroup;
  readonly name: string;
  /** '' if the object has none (manifests). */
  readonly uid: string;
  /** 0 if the object has none (manifests). */
  readonly generation: number;
  /** The annotation `nodewall.io/retry`; absent: there is none. */
  readonly retry?: string;
  readonly spec: ClusterNetworkPolicySpec;
  /** Read only in a cluster, and only of policies that have a rollout; absent: none. */
  readonly rollout?: PolicyRollout;
  /** Set where nodes may have another version of the policy; absent: all nodes have this one. */
  readonly share?: PolicyShare;
}

/** The rollout in a policy's status. */
export interface PolicyRollout {
  /** Null: nothing is decided. */
  readonly decision: RolloutDecision | null;
  /** The resource version at which this process first saw the decision. */
  readonly since: number;
  /** The stored versions that are valid. */
  readonly versions: readonly PolicyVersionSpec[];
  /** Whether a controller has ever written a status of the policy. */
  readonly isSeen: boolean;
}

export interface PolicyVersionSpec {
  readonly generation: number;
  readonly spec: ClusterNetworkPolicySpec;
}

/** The nodes that have one version of a policy, among those that it applies to. */
export interface PolicyShare {
  /** Different for different versions. */
  readonly version: string;
  /** The resource version of the policy at which the nodes were decided. */
  readonly since: number;
  /** Absent: all nodes. */
  readonly nodes?: RolloutShare & {
    /** The policy's uid, or the name of its group. */
    readonly salt: string;
    /** Whether they are the nodes that take part, or the others. */
    readonly areTaking: boolean;
  };
}

/** Flows, as a rule's peers and ports: every value of what is absent. */
export interface RequiredFlow {
  readonly name?: string;
  readonly direction: Direction;
  /** Ingress only. */
  readonly from?: readonly NetworkPolicyPeer[];
  /** Egress only. */
  readonly to?: readonly NetworkPolicyPeer[];
  readonly ports?: readonly NetworkPolicyPort[];
  readonly protocols?: readonly NetworkPolicyProtocol[];
  /** Absent: Host. NodePort: ingress only. */
  readonly traffic?: PolicyTraffic;
}

interface GuardrailSpec {
  readonly nodeSelector: LabelSelector;
  readonly mustAllow?: readonly RequiredFlow[];
  readonly mustDeny?: readonly RequiredFlow[];
}

/** Connections that must stay allowed, or denied, whatever the policies are. */
export interface Guardrail {
  readonly kind: 'Guardrail';
  readonly apiGroup: 'nodewall.io';
  readonly name: string;
  /** '' if the object has none (manifests). */
  readonly uid: string;
  /** 0 if the object has none (manifests). */
  readonly generation: number;
  readonly spec: GuardrailSpec;
}

/** Exactly one kind of member, except that podSelector and namespaceSelector may stand together. */
export interface ClusterGroupSpec {
  readonly podSelector?: LabelSelector;
  readonly namespaceSelector?: LabelSelector;
  readonly nodeSelector?: LabelSelector;
  readonly ipBlocks?: readonly IPBlock[];
  /** The pods that the Service's selector selects. */
  readonly serviceReference?: NamespacedName;
  /** Names of ClusterGroups that have no childGroups themselves. */
  readonly childGroups?: readonly string[];
}

export interface ClusterGroup {
  readonly kind: 'ClusterGroup';
  readonly apiGroup: ApiGroup;
  readonly name: string;
  readonly spec: ClusterGroupSpec;
}

export interface Service {
  readonly kind: 'Service';
  readonly namespace: string;
  readonly name: string;
  /** Null if the Service has none: then it selects no pods. */
  readonly selector: Labels | null;
  /** Empty for a headless Service. */
  readonly clusterIPs: readonly string[];
  /**
   * External IPs and load-balancer IPs of the Service, which no Node may report as its own; absent
   * if it has none.
   */
  readonly externalAddresses?: readonly string[];
  /** Where a load balancer asks Nodes whether they have an endpoint; absent: nowhere. */
  readonly healthCheckNodePort?: number;
  readonly ports: readonly ServicePort[];
}

export interface ServicePort {
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
  readonly port: number;
}

/**
 * Endpoints of one Service. Narrowing leaves out ports without a number and endpoints that are not
 * ready.
 */
export interface EndpointSlice {
  readonly kind: 'EndpointSlice';
  readonly namespace: string;
  readonly name: string;
  /** Value of the label `kubernetes.io/service-name`. */
  readonly service: string;
  readonly addresses: readonly string[];
  readonly ports: readonly ServicePort[];
  /**
   * Whether `toServices` has the addresses that no pod has, too: the configuration names the
   * Service, or it is that of the API server. Absent: it has not.
   */
  readonly isTrusted?: true;
}

/**
 * The output of stage 1 and input of stage 2. Order does not matter; identities (kind, API group,
 * namespace, name) are unique.
 */
export interface ClusterObjects extends EgressObjects {
  readonly nodes: readonly Node[];
  readonly namespaces: readonly Namespace[];
  readonly pods: readonly Pod[];
  readonly services: readonly Service[];
  readonly endpointSlices: readonly EndpointSlice[];
  readonly groups: readonly ClusterGroup[];
  readonly tiers: readonly Tier[];
  readonly policies: readonly ClusterNetworkPolicy[];
  readonly guardrails: readonly Guardrail[];
}

export const NO_OBJECTS: ClusterObjects = {
  nodes: [],
  namespaces: [],
  pods: [],
  services: [],
  endpointSlices: [],
  groups: [],
  tiers: [],
  policies: [],
  guardrails: [],
  egressGateways: [],
  egressPolicies: [],
  insideNetworks: [],
};

export type ClusterObject =
  | Node
  | Namespace
  | Pod
  | Service
  | EndpointSlice
  | ClusterGroup
  | Tier
  | ClusterNetworkPolicy
  | Guardrail
  | EgressGateway
  | EgressPolicy
  | InsideNetworks;

/** A problem of one object, or a note about it. */
export interface Problem {
  /** error: the object is rejected. warning and notice: it is not. */
  readonly severity: 'error' | 'warning' | 'notice';
  /** Path of the file that holds the object, or '' for an API object. */
  readonly file: string;
  /** Line in the file, from 1; 0 if there is none. */
  readonly line: number;
  /** '' if the problem concerns the file, not an object. */
  readonly kind: string;
  readonly name: string;
  /** Field path, as in `spec.ingress[0].ports[0].endPort`; '' for the whole object. */
  readonly path: string;
  /** The fault, the value, and the valid values. */
  readonly message: string;
}
