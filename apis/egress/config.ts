import type { Config } from '../config.ts';

/** The part `egress` of the configuration (docs/egress.md). */
export interface EgressConfig {
  /** Further destinations (CIDRs) that are never steered. */
  readonly inside: readonly string[];
  /** The networks of Services (CIDRs), where there are no ServiceCIDR objects. */
  readonly serviceCIDRs: readonly string[];
  /**
   * Hold: a packet from a source in a Node's pod networks that no known pod has is dropped, if it
   * goes outside. Pass: it leaves as without nodewall.
   */
  readonly unknownPods: 'Hold' | 'Pass';
  /**
   * API groups of other projects whose objects are read besides. Their own programs must not act on
   * these objects at the same time.
   */
  readonly read: readonly string[];
}

export const DEFAULT_EGRESS_CONFIG: EgressConfig = {
  inside: [],
  serviceCIDRs: [],
  unknownPods: 'Hold',
  read: ['egressgateway.spidernet.io'],
};

/** Link group of the tunnel's device, unless the configuration names another number. */
export const DEFAULT_EGRESS_GROUP = 10;

/**
 * The configuration with the link group `egress`, if the feature gate is on. Without it where the
 * configuration gives the number to another group.
 */
export function withEgressGroup(config: Config): Config {
  const { featureGates, interfaceGroups } = config;
  if (featureGates.EgressGateway !== true || interfaceGroups.egress !== undefined) return config;
  if (Object.values(interfaceGroups).includes(DEFAULT_EGRESS_GROUP)) return config;
  return { ...config, interfaceGroups: { ...interfaceGroups, egress: DEFAULT_EGRESS_GROUP } };
}
