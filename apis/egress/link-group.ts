import type { Config } from '../config.ts';

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
