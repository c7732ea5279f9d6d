/**
 * The kernel mechanisms that enforce the rules of a node, in the order in which `auto` tries them,
 * with the highest `log.rate` and `log.burst` of each; null: no limit. The rest of each is in
 * agent/dataplane.
 */
export const DATAPLANE_LIMITS = {
  nftables: null,
  // The smallest interval of xt_limit is 1/10000 s, and its burst has the same bound
  // (XT_LIMIT_SCALE, linux/netfilter/xt_limit.h).
  iptables: 10_000,
} as const;

export type DataplaneName = keyof typeof DATAPLANE_LIMITS;

export const DATAPLANE_NAMES = Object.keys(DATAPLANE_LIMITS) as readonly DataplaneName[];
