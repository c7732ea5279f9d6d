/** The part `egress` of the configuration (docs/egress.md). */
export interface EgressConfig {
  /** Further destinations (CIDRs) that are never steered. */
  readonly inside: readonly string[];
  /** The networks of Services (CIDRs), where there are no ServiceCIDR objects. */
  readonly serviceCIDRs: readonly string[];
  /** The networks of pods (CIDRs); empty: those that Nodes say, if they are private. */
  readonly podCIDRs: readonly string[];
  /**
   * Hold: a packet from a source in a Node's pod networks that no known pod has is dropped, if it
   * goes outside. Pass: it leaves as without nodewall.
   */
  readonly unknownPods: 'Hold' | 'Pass';
  /** Limits of the EgressPolicies of one namespace. */
  readonly namespaceLimits: NamespaceLimits;
  /**
   * How Nodes send packets to gateways: None, in clear, or by WireGuard. Agents follow what the
   * controller says of each Node; of the configuration they take whether they have a key.
   */
  readonly encryption: 'None' | 'WireGuard';
  /** The directory of the results of CNI, as libcni keeps them. */
  readonly cniResults: string;
  /** The directory of CNI plugins into which the agent puts nodewall-egress; '': it does not. */
  readonly cniPlugins: string;
}

export interface NamespaceLimits {
  readonly policies: number;
  /** Entries of `to` and `except`; a policy without any counts as one. */
  readonly networks: number;
}

export const DEFAULT_EGRESS_CONFIG: EgressConfig = {
  inside: [],
  serviceCIDRs: [],
  podCIDRs: [],
  unknownPods: 'Hold',
  namespaceLimits: { policies: 100, networks: 1024 },
  encryption: 'None',
  cniResults: '/var/lib/cni/results',
  cniPlugins: '',
};
