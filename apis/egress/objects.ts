/**
 * Values of stage 1 for egress gateways (docs/egress.md): objects of nodewall.io/v1alpha1,
 * validated and narrowed to one form, in which defaults are filled in.
 */
import type { LabelSelector } from '../label-selector.ts';

/** Label of a Namespace whose value names the gateway of its EgressPolicies that name none. */
export const NAMESPACE_GATEWAY_LABEL = 'nodewall.io/egress-gateway';

export interface EgressGateway {
  readonly kind: 'EgressGateway';
  readonly apiGroup: 'nodewall.io';
  readonly name: string;
  /** '' if the object has none (manifests). */
  readonly uid: string;
  /** 0 if the object has none (manifests). */
  readonly generation: number;
  readonly spec: EgressGatewaySpec;
  /** The controller's last decision; null: none yet. */
  readonly status: EgressGatewayStatus | null;
}

export interface EgressGatewaySpec {
  /** The candidate nodes; never `{}`. */
  readonly nodeSelector: LabelSelector;
  /** `IP`, `IP-IP` or `CIDR`, both families mixed, in their order; empty: none. */
  readonly ranges: readonly string[];
  readonly source: 'Floating' | 'Node';
  /** Source Node: the interface whose address is used; absent: that of the route. */
  readonly interface?: string;
  readonly choice: 'Failover' | 'Spread';
  readonly announce: 'L2' | 'None';
  readonly probes: readonly EgressProbe[];
  readonly failover: {
    readonly heartbeatMilliseconds: number;
    readonly leaseSeconds: number;
    readonly failback: boolean;
  };
  /** Whose EgressPolicies may use the gateway; null: none. */
  readonly allowedNamespaces: LabelSelector | null;
  readonly default: boolean;
}

export interface AddressPair {
  readonly ipv4?: string;
  readonly ipv6?: string;
}

/** Asked from the gateway outwards. A probe without a port is an ICMP echo. */
export interface EgressProbe {
  readonly address: string;
  /** TCP port; absent: ICMP. */
  readonly port?: number;
  readonly seconds: number;
  /** So many in a row are a failure. */
  readonly failures: number;
}

export interface EgressGatewayStatus {
  readonly nodes: readonly { readonly name: string; readonly ready: boolean; readonly reason?: string }[];
  /** `node`: the owner; '' if the slot has none. */
  readonly slots: readonly {
    readonly name: string;
    readonly node: string;
    readonly epoch: number;
    readonly addresses: readonly string[];
    /** Leases last so long, for once; absent: as the spec says. */
    readonly leaseSeconds?: number;
  }[];
  /** The owner of each floating address, or its last one; absent: not known. */
  readonly addresses?: readonly HeldAddress[];
}

export interface HeldAddress {
  readonly address: string;
  /** As holderName (controller/egress/order.ts) has it; '': the gateway's Shared policies. */
  readonly policy: string;
  /**
   * No policy has it any more, and until then no other one gets it, because connections may still
   * use it (RFC 3339); absent: the policy has it.
   */
  readonly heldUntil?: string;
}

/** The stages of docs/egress.md: evaluated in this order. */
export const EGRESS_STAGES = ['Override', 'Namespace', 'Default'] as const;
export type EgressStage = (typeof EGRESS_STAGES)[number];

/** An EgressPolicy, or a ClusterEgressPolicy (`namespace` is '' then). */
export interface EgressPolicy {
  readonly kind: 'EgressPolicy' | 'ClusterEgressPolicy';
  readonly apiGroup: 'nodewall.io';
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly generation: number;
  /** metadata.creationTimestamp; absent if the object has none (manifests). */
  readonly created?: string;
  readonly spec: EgressPolicySpec;
  readonly status: EgressPolicyStatus | null;
}

export interface EgressPolicySpec {
  /** EgressPolicies are of stage Namespace. */
  readonly stage: EgressStage;
  /** At least one; OR-ed. */
  readonly appliedTo: readonly EgressAppliedTo[];
  /** Absent: the default gateway. */
  readonly gateway?: string;
  /** CIDRs; absent: every destination. */
  readonly to?: readonly string[];
  readonly except: readonly string[];
  readonly action: 'Gateway' | 'Direct' | 'Drop';
  readonly address: EgressAddress;
  readonly whenUnavailable: 'Drop' | 'Direct';
  readonly priority: number;
  readonly mode: 'Enforce' | 'Audit';
  /** Connections that began before the policy, by another way, end; absent: they go on. */
  readonly established?: 'Recheck';
}

/**
 * Fields that are there are AND-ed; at least one is. Selectors select pods, in an EgressPolicy only
 * those of its namespace; `podSubnets` compares the connection's source address, in an EgressPolicy
 * only where it is one of a pod of the namespace.
 */
export interface EgressAppliedTo {
  readonly podSelector?: LabelSelector;
  readonly namespaceSelector?: LabelSelector;
  readonly podSubnets?: readonly string[];
}

export interface EgressAddress {
  readonly allocation: 'Shared' | 'Dedicated' | 'Fixed';
  /** Fixed: at least one of the two. */
  readonly fixed: AddressPair;
  /** Dedicated: how many addresses of each family. */
  readonly count: number;
}

export interface EgressPolicyStatus {
  readonly addresses: readonly string[];
}

/** Networks that are inside the cluster, of a ServiceCIDR or IPPool. */
export interface InsideNetworks {
  readonly kind: 'ServiceCIDR' | 'IPPool';
  readonly name: string;
  readonly cidrs: readonly string[];
}

/** The part of ClusterObjects that only egress gateways use. */
export interface EgressObjects {
  readonly egressGateways: readonly EgressGateway[];
  /** Policies of both kinds. */
  readonly egressPolicies: readonly EgressPolicy[];
  readonly insideNetworks: readonly InsideNetworks[];
}
