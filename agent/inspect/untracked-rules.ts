import type { WantedRules } from './other-rules.ts';

/** Chains at these hooks come before connection tracking, if their priority is less than its. */
const HOOKS: ReadonlySet<unknown> = new Set(['prerouting', 'output']);
/** NF_IP_PRI_CONNTRACK of linux/netfilter_ipv4.h. */
const CONNTRACK = -200;

/** Rules that leave packets out of connection tracking. */
export const UNTRACKED_RULES: WantedRules = {
  isIn: ({ hook, prio }) => HOOKS.has(hook) && prio < CONNTRACK,
  nft: /(?:^|\s)notrack(?:\s|$)|\bxt target "(?:CT|NOTRACK)"/,
  legacyTable: 'raw',
  legacy: /-j (?:CT --notrack|NOTRACK)\b/,
};
